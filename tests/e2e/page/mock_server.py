"""What the page needs of a server: GET / and /stats, POST /v1/chat/completions. The last message picks the answer.

Run alone for work on the page: python3 mock_server.py PORT"""

import http.server
import json
import pathlib
import sys
import threading
import time

PAGE = pathlib.Path(__file__).resolve().parents[3] / "src" / "serve" / "page" / "index.html"

MARKDOWN = """# A heading

Some *slanted*, **strong**, ~~struck~~ text and `code < b`, a [link](https://example.com/a_(b)) and snake_case_words.

1. first
2. second
   - inner *item*
   - another

   still second
3. third

> quoted
> lines

| name | value |
| --- | ---: |
| one | 1 |
| a \\| b | `2` |

```python
def f(x):
    return x < 1 and "<b>no markup</b>"
```

<img src=x onerror="window.hacked = 1"><script>window.hacked = 1</script>
[bad](javascript:window.hacked=1)

---
The end."""


class Mock(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.bodies = []      # of chat requests
        self.broken = 0       # answers whose client went away
        self.tokens_seen = 0  # for the reports
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def send_whole(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path == "/":
            self.send_whole(200, "text/html; charset=utf-8", PAGE.read_bytes())
        elif self.path == "/stats":
            self.send_whole(200, "application/json", json.dumps(self.stats()).encode())
        else:
            self.send_whole(404, "application/json", b'{"error": {"message": "not here"}}')

    def stats(self):
        stores = [{"store": f"layer {i} {kind}", "row": row, "row_bytes": n, "tokens_per_row": 1, "ring_rows": 0}
                  for i in range(6) for kind, row, n in (("main", "v41_fp4(512)", 288), ("index_key", "index_fp4(128)", 68),
                                                         ("window", "v41_fp8(512)", 528))]
        return {"model": "mock-model", "family": "deepseek_v41", "context": 131072, "stored_bytes_per_token": 890.0,
                "window_bytes": 2703360, "weight_bytes_per_token": 1_450_000_000, "machine": {"read_gb_s": 58.2},
                "stores": stores, "running": 1, "waiting": 0, "kept_caches": 3, "kept_bytes": 9_876_543,
                "page_bytes": 23_456_789, "prompt_tokens": 5000, "reused_tokens": 3812, "computed_tokens": 1188,
                "generated_tokens": 640}

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.bodies.append(body)
        text = body["messages"][-1]["content"]
        if text.startswith("refuse"):
            message = "This model's maximum context length is 131072 tokens. However, your messages hold 140001."
            return self.send_whole(400, "application/json", json.dumps({"error": {"message": message}}).encode())
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            self.stream(body, text)
        except (BrokenPipeError, ConnectionResetError):
            self.server.broken += 1

    def event(self, delta, finish=None, **more):
        chunk = {"object": "chat.completion.chunk", **more,
                 "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
        self.wfile.flush()

    def cache(self, prompt):
        stores = [{"store": s["store"], "bytes": s["row_bytes"] * min(prompt, 128)} for s in self.stats()["stores"]]
        return {"bytes": sum(s["bytes"] for s in stores), "stores": stores}

    def stream(self, body, text):
        started = time.monotonic()
        prompt = sum(len(m["content"]) for m in body["messages"]) // 4 + 8
        reused = min(self.server.tokens_seen, prompt - 4)
        tokens = {"reused": reused, "replayed": reused // 5, "computed": prompt - reused, "from": "memory",
                  "why_not_more": "the last message is new"}
        self.event({"role": "assistant", "content": ""}, seekline={"prompt_tokens": tokens})
        if text.startswith("slow"):
            self.wfile.write(f": prompt {reused + 1}/{prompt}\n\n".encode())
            self.wfile.flush()
            time.sleep(0.7)
        pause = 0.03 if text.startswith("slow") else 0.002
        if text.startswith("think"):
            for piece in ("First I ", "weigh ", "the matter."):
                self.event({"reasoning_content": piece})
                time.sleep(pause)
        answer = MARKDOWN if text.startswith("markdown") else "word " * 400 if text.startswith("slow") else f"You said: {text}"
        pieces = [answer[i:i + 5] for i in range(0, len(answer), 5)]
        for i, piece in enumerate(pieces):
            if text.startswith("break") and i == 2:
                self.wfile.write(b'data: {"error": {"message": "the engine stumbled"}}\n\n')
                return
            more = {"seekline": {"cache": self.cache(prompt)}} if i == 0 else {}
            self.event({"content": piece}, **more)
            time.sleep(pause)
        self.server.tokens_seen = prompt + len(pieces)
        seconds = time.monotonic() - started
        report = {"prompt_tokens": tokens,
                  "seconds": {"queue": 0.01, "prompt": 0.2, "answer": seconds},
                  "tokens_per_second": {"prompt": 512.0, "answer": 24.5}, "preemptions": 0,
                  "cache": self.cache(prompt)}
        self.event({}, "length" if text.startswith("long") else "stop", seekline=report)
        self.wfile.write(b"data: [DONE]\n\n")


if __name__ == "__main__":
    mock = Mock(int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
    print(mock.url)
    threading.Event().wait()
