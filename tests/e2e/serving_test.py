#!/usr/bin/env python3
"""What docs/serving.md promises, tried at the program with a tiny model: long prompts, who goes away, limits, preemption,
restarts, shutdown, configuration.

serving_test.py PROGRAM MODEL"""

import http.client
import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from served_program import ServedProgram

program = model = None
# Token ids of a prompt that takes 800 steps: whatever the machine's speed, it is still read when it is left.
LONG = [30 + i * i % 900 for i in range(400_000)]


def serve(*flags):
    return ServedProgram(program, "--threads", "1", *flags, model=model)  # a second thread has nothing to do here


def expect(condition, words, found=None):
    if not condition:
        raise AssertionError(f"{words}: found {found!r}")


def completion(prompt, tokens):
    """Exactly so many tokens: the end token is never chosen."""
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logit_bias": {"1": -100}}


class Stream:
    """A streaming request; lines come as they arrive, each with the seconds since the request."""

    def __init__(self, served, body, path="/v1/completions"):
        self.connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=120)
        self.start = time.monotonic()
        self.connection.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        self.reply = self.connection.getresponse()
        self.header_seconds = time.monotonic() - self.start

    def lines(self):
        for line in self.reply:
            if line.strip():
                yield time.monotonic() - self.start, line.decode().strip()

    def first(self, pattern):
        for _, line in self.lines():
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the stream ended without {pattern}")

    def leave(self):
        self.reply.close()
        self.connection.close()


def pieces(lines):
    """When the pieces of an answer came."""
    return [t for t, line in lines if line.startswith("data: {") and json.loads(line[6:]).get("choices")]


def soon(condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def a_long_prompt_is_heard_of_and_stalls_nobody():
    # The promise is a second to the header and 15 s (here 2) of silence; the machine may be busy with other things.
    with serve("--keep-alive-seconds", "2") as served:
        long = Stream(served, completion(LONG, 1))
        expect(long.header_seconds < 4, "seconds to the header of a stream", long.header_seconds)
        long.first(r"^: prompt \d+/400000$")
        short = Stream(served, completion("Once upon a time", 60))
        times = pieces(short.lines())
        expect(len(times) >= 20, "pieces of an answer beside a long prompt", times)
        done = int(long.first(r"^: prompt (\d+)/")[1])
        expect(done < len(LONG), "the long prompt is still read", done)
        print(f"  gaps beside a prompt of 400,000 tokens: longest {max(b - a for a, b in zip(times, times[1:])):.2f} s")
        # Who does not stream hears blanks.
        start = time.monotonic()
        connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        connection.request("POST", "/v1/completions", json.dumps(completion(LONG[::-1], 1)), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        expect(time.monotonic() - start < 6, "seconds to the header of an answer that does not stream", time.monotonic() - start)
        expect(reply.read(1) == b"\n", "a blank")
        expect(time.monotonic() - start < 15, "seconds to the blank", time.monotonic() - start)
        connection.close()
        before = served.stats()["computed_tokens"]
        long.leave()
        expect(soon(lambda: served.stats()["running"] == 0), "an end of those who went away", served.stats())
        expect(served.stats()["computed_tokens"] - before < 8 * 512, "tokens computed for nobody", served.stats())


def the_retry_finds_the_work_of_who_went_away():
    with serve() as served:
        first = Stream(served, completion(LONG, 1))
        done = int(first.first(r"^: prompt (\d+)/400000$")[1])
        first.leave()
        expect(soon(lambda: served.stats()["running"] == 0), "an end", served.stats())
        prompt = LONG[:done] + [7, 8, 9]  # as far as is known to be there, so that nobody computes the rest
        status, _, retry = served.request("POST", "/v1/completions", completion(prompt, 4))
        expect(status == 200, "the retry", retry)
        report = retry["seekline"]["prompt_tokens"]
        expect(report["reused"] >= done, f"tokens reused of {done}", report)
    with serve() as served:
        cold = served.request("POST", "/v1/completions", completion(prompt, 4))[2]
        expect(cold["choices"] == retry["choices"], "the answer of the retry", (cold["choices"], retry["choices"]))


def limits_are_said_with_a_time_to_come_back():
    with serve("--max-body", "8192", "--context", "2000") as served:
        status, _, reply = served.request("POST", "/v1/completions", completion("x" * 9000, 1))
        expect((status, reply["error"]["code"]) == (413, "body_too_large"), "a large body", reply)
        chat = {"messages": [{"role": "user", "content": "z \n" * 1200}], "max_tokens": 4}
        status, _, reply = served.request("POST", "/v1/chat/completions", chat)
        expect(status == 400 and reply["error"]["code"] == "context_length_exceeded", "too long a prompt", reply)
        expect(re.search(r"maximum context length is 2000 tokens.*resulted in \d+ tokens", reply["error"]["message"]), "both numbers", reply)
        status, _, reply = served.request("POST", "/v1/messages", chat)
        expect(re.search(r"prompt is too long: \d+ tokens > \d+ maximum", reply["error"]["message"]), "both numbers", reply)
    with serve("--max-running", "1", "--max-waiting", "1", "--queue-seconds", "1") as served:
        busy = Stream(served, completion("Once", 100_000))
        busy.first("^data: ")
        waits = Stream(served, completion("Twice", 4))
        expect(soon(lambda: served.stats()["waiting"] == 1), "one waits", served.stats())
        status, headers, reply = served.request("POST", "/v1/completions", completion("Three times", 4))
        expect((status, reply["error"]["code"]) == (429, "queue_full") and int(headers["Retry-After"]) > 0, "a full queue", (headers, reply))
        waits.first('"code":"queue_timeout"')
        expect("[DONE]" not in waits.reply.read().decode(), "a stream that failed ends without [DONE]")
        busy.leave()
    with serve("--request-seconds", "0.7") as served:
        Stream(served, completion("Once", 100_000)).first('"code":"request_timeout"')


def preempted_answers_are_the_same():
    # Prompts end shortly before a page of 256 tokens does, answers in the third page. One request: all begin together.
    prompts = [LONG[i:i + 250] for i in range(3)]
    with serve() as served:
        alone = [served.request("POST", "/v1/completions", completion(prompt, 270))[2]["choices"][0]["text"] for prompt in prompts]
        page = served.stats()["page_bytes"] // 9
    with serve("--cache-limit", str(page * 5)) as served:
        together = served.request("POST", "/v1/completions", completion(prompts, 270))[2]
        expect([choice["text"] for choice in together["choices"]] == alone, "answers", (together, alone))
        preempted = sum(report["preemptions"] for report in together["seekline"]["choices"])
        expect(preempted > 0 and served.stats()["preempted"] == preempted, "preemptions", served.stats())
        status, _, reply = served.request("POST", "/v1/completions", completion(LONG[:3000], 1))
        expect((status, reply["error"]["code"]) == (400, "cache_limit_exceeded"), "a prompt beyond the cache limit", reply)


def a_restart_finds_what_was_stored():
    with tempfile.TemporaryDirectory() as store:
        answers = []
        for _ in range(2):
            with serve("--store", store) as served:
                answers.append(served.request("POST", "/v1/completions", completion(LONG[:2000], 8))[2])
                expect(served.stop()[0] == 0, "the exit code")
        report = answers[1]["seekline"]["prompt_tokens"]
        expect(report["from"] == "disk" and report["reused"] > 1500, "reuse after a restart", report)
        expect(answers[0]["choices"] == answers[1]["choices"], "the answer after a restart", answers)


def a_signal_lets_answers_finish_and_refuses_new_ones():
    with serve("--shutdown-seconds", "600") as served:
        runs = Stream(served, completion("Once", 1500))
        runs.first("^data: ")
        expect(served.request("GET", "/ready")[0] == 200, "ready")
        served.process.send_signal(signal.SIGTERM)
        expect(soon(lambda: served.request("GET", "/ready")[0] == 503, 5), "not ready any more")
        status, headers, reply = served.request("POST", "/v1/completions", completion("x", 1))
        expect((status, reply["error"]["code"]) == (503, "shutting_down") and "Retry-After" in headers, "a new request", reply)
        runs.first(r"\[DONE\]")
        expect(served.process.wait(30) == 0, "the exit code")
    with serve("--shutdown-seconds", "0.5") as served:
        runs = Stream(served, completion("Once", 100_000))
        runs.first("^data: ")
        start = time.monotonic()
        served.process.send_signal(signal.SIGINT)
        runs.first('"code":"shutting_down"')
        expect(served.process.wait(30) == 0 and time.monotonic() - start < 10, "its end in time", time.monotonic() - start)
    with serve() as served:
        runs = Stream(served, completion("Once", 100_000))
        runs.first("^data: ")
        served.process.send_signal(signal.SIGTERM)
        expect(soon(lambda: served.request("GET", "/ready")[0] == 503, 5), "not ready any more")
        served.process.send_signal(signal.SIGTERM)
        expect(served.process.wait(30) == 130, "the exit code of a second signal")


def a_file_configures_it():
    with tempfile.TemporaryDirectory() as place:
        toml, wrong = pathlib.Path(place) / "serve.toml", pathlib.Path(place) / "wrong.json"
        toml.write_text(f'model = "{model}"\nname = "from-toml"\nmax-running = 3\napi-key = ["one", "two"]\n')
        as_json = pathlib.Path(place) / "serve.json"
        as_json.write_text(json.dumps({"model": model, "name": "from-json", "max-body": 2000}))
        with ServedProgram(program, "--config", str(toml)) as served:
            expect(served.request("GET", "/v1/models")[0] == 401, "a key is asked for")
            reply = served.request("GET", "/v1/models", None, {"Authorization": "Bearer two"})[2]
            expect(reply["data"][0]["id"] == "from-toml", "the name", reply)
        with ServedProgram(program, "--config", str(as_json), "--name", "from-a-flag") as served:
            expect(served.url.startswith("http://127.0.0.1:"), "the address", served.url)
            status, headers, reply = served.request("GET", "/v1/models")
            expect(reply["data"][0]["id"] == "from-a-flag", "the name", reply)
            expect(not any(name.startswith("Access-Control") for name in headers), "CORS is off", headers)
            expect(served.request("GET", "/v1/models", None, {"Origin": "https://elsewhere.example"})[0] == 403, "another origin")
            expect(served.request("POST", "/v1/completions", completion("x" * 3000, 1))[0] == 413, "the limit of the file")
        wrong.write_text('{"max-runing": 3}')
        done = subprocess.run([program, "serve", "--config", str(wrong)], capture_output=True, text=True, timeout=60, check=False)
        expect(done.returncode != 0 and "max-runing" in done.stderr, "an unknown key", done.stderr)


def what_is_deployed_is_read():
    deploy = pathlib.Path(__file__).resolve().parents[2] / "deploy"
    with tempfile.TemporaryDirectory() as place:
        keys, config = pathlib.Path(place) / "keys", pathlib.Path(place) / "serve.toml"
        keys.write_text("# one a line\nsecret\n")
        text = (deploy / "serve.toml").read_text()
        for key, value in (("model", model), ("api-key-file", keys)):
            text, found = re.subn(rf'^{key} = .*$', f'{key} = "{value}"', text, flags=re.M)
            expect(found == 1, f"{key} in serve.toml", text)
        config.write_text(re.sub(r"^# ([a-z-]+ = \d+)$", r"\1", text, flags=re.M))  # its suggestions, too
        with ServedProgram(program, "--config", str(config)) as served:
            expect(served.request("GET", "/v1/models", None, {"x-api-key": "secret"})[0] == 200, "a key of the file")
        if shutil.which("systemd-analyze"):
            unit = pathlib.Path(place) / "seekline.service"
            unit.write_text((deploy / "seekline.service").read_text().replace("/usr/local/bin/seekline", str(pathlib.Path(program).resolve())))
            done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60, check=False)
            expect(done.returncode == 0 and "seekline" not in done.stderr, "what systemd says of the unit", done.stderr)


def main():
    global program, model
    program, model = sys.argv[1:3]
    for check in (a_long_prompt_is_heard_of_and_stalls_nobody, the_retry_finds_the_work_of_who_went_away,
                  limits_are_said_with_a_time_to_come_back, preempted_answers_are_the_same, a_restart_finds_what_was_stored,
                  a_signal_lets_answers_finish_and_refuses_new_ones, a_file_configures_it, what_is_deployed_is_read):
        start = time.monotonic()
        check()
        print(f"ok {check.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
