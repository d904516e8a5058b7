#!/usr/bin/env python3
"""Bad requests by the thousand, half-open connections and 200 clients at once against `seekline serve` with the default
model: answers are right afterwards and memory stays flat.

    abuse_test.py PROGRAM [--requests N] [--clients N] [--short]

Exit code 77: the default model has not been fetched."""

import argparse
import http.client
import json
import random
import socket
import sys
import threading
import time

from served_program import SKIP, ServedProgram, default_model_is_there

QUESTION = {"messages": [{"role": "user", "content": "What is the capital of France? Answer in one sentence."}],
            "temperature": 0, "max_tokens": 24, "logprobs": True}


def ask(port, body, timeout=300):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    text = reply.read()
    connection.close()
    return reply.status, json.loads(text)


def post(path, body, *headers):
    head = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


def bad_request(rng):
    """Bytes that are no good request."""
    path = rng.choice(["/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/tokenize"])
    good = json.dumps(QUESTION).encode()
    if rng.random() < 0.002:  # huge
        return post(path, b'{"messages": "' + b"x" * (17 << 20) + b'"}')
    kind = rng.randrange(12)
    if kind == 0:
        whole = post(path, good)
        return whole[:rng.randrange(1, len(whole) - 1)]
    if kind == 1:
        return rng.randbytes(rng.randrange(1, 400))
    if kind == 2:
        return post(path, good[:rng.randrange(len(good) - 1)])
    if kind == 3:
        return post(path, b"[" * rng.randrange(1, 50000))
    if kind == 4:
        return post(path, b'{"messages": [{"role": "user", "content": "' + rng.randbytes(20).replace(b'"', b"") + b'\xff"}]}')
    if kind == 5:
        unknown = {**QUESTION, "messages": "nothing", "x" * rng.randrange(1, 200): rng.random()}
        return post(path, json.dumps(unknown).encode())
    if kind == 6:
        return b"GET /health HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % i for i in range(rng.randrange(8000, 20000))) + b"\r\n"
    if kind == 7:
        return b"GET /" + b"a" * rng.randrange(8000, 20000) + b" HTTP/1.1\r\n\r\n"
    if kind == 8:
        return post(path, b"{}", "Content-Length: 7", "Transfer-Encoding: chunked")
    if kind == 9:
        return f"POST {path} HTTP/1.1\r\nContent-Length: {rng.choice([-1, 10**30, 'x', 1 << 40])}\r\n\r\n".encode()
    if kind == 10:
        wrong = {**QUESTION, rng.choice(["temperature", "max_tokens", "n", "stop", "tools", "seed"]): rng.choice(["x", -5, [], {}, 1e300, [None]])}
        wrong["messages"] = [{"role": "nobody", "content": 3}]
        return post(path, json.dumps(wrong).encode())
    flipped = bytearray(post(path, b'{"messages": 1}'))
    flipped[rng.randrange(20)] = rng.randrange(256)
    return bytes(flipped)


def send_bad(port, rng):
    data = bad_request(rng)
    with socket.create_connection(("127.0.0.1", port), timeout=15) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            reply = b""
            while piece := s.recv(65536):
                reply += piece
        except (ConnectionResetError, BrokenPipeError, TimeoutError):
            return None
    if reply.startswith(b"HTTP/1.1 "):
        return int(reply[9:12])
    return None


def bad_requests(served, count):
    statuses, lock = {}, threading.Lock()

    def work(seed, share):
        rng = random.Random(seed)
        for _ in range(share):
            status = send_bad(served.port, rng)
            with lock:
                statuses[status] = statuses.get(status, 0) + 1

    threads = [threading.Thread(target=work, args=(i, count // 8)) for i in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return statuses


def slow_clients(served, count):
    """Clients that send a byte now and then. How many of them were still connected after the server's patience."""
    start, hanging, lock = time.monotonic(), [], threading.Lock()

    def work(seed):
        rng = random.Random(seed)
        whole = post("/v1/chat/completions", json.dumps(QUESTION).encode())
        whole = whole[:60] if seed % 2 else whole[:-20] + b" " * 500  # in the header; in the body
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as s:
            try:
                s.sendall(b"" if seed % 2 else whole[:150])
                for byte in whole * 10 if seed % 2 else whole[150:]:
                    s.sendall(bytes([byte]))
                    time.sleep(rng.uniform(0.2, 0.5))
                    if time.monotonic() - start > 25:
                        with lock:
                            hanging.append(seed)
                        return
            except (ConnectionResetError, BrokenPipeError, TimeoutError):
                return

    threads = [threading.Thread(target=work, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    return threads, hanging


def many_clients(served, count):
    failures, answers, lock = [], set(), threading.Lock()

    def work():
        try:
            status, body = ask(served.port, QUESTION)
            with lock:
                answers.add(json.dumps(body["choices"]) if status == 200 else str(body))
        except Exception as error:  # whatever it is, the test fails with it
            with lock:
                failures.append(repr(error))

    threads = [threading.Thread(target=work) for _ in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return failures, answers


def expect(condition, words):
    if not condition:
        raise AssertionError(words)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--requests", type=int, default=10000)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--short", action="store_true", help="for sanitizers, which keep memory of their own")
    options = parser.parse_args()
    if options.short:
        options.requests, options.clients = 1000, 16
    if not default_model_is_there():
        print("skipped: the default model has not been fetched (./dev run fetches it)", file=sys.stderr)
        sys.exit(SKIP)
    with ServedProgram(options.program, "--max-waiting", "400", "--body-seconds", "5") as served:
        right = ask(served.port, QUESTION)
        expect(right[0] == 200, right)
        answer = json.dumps(right[1]["choices"])  # with log probabilities: every bit of it
        slow, hanging = slow_clients(served, options.clients // 5)
        bad_requests(served, max(400, options.requests // 10))  # warm: threads, buffers, arenas
        before = served.resident_bytes()
        start = time.monotonic()
        statuses = bad_requests(served, options.requests)
        print(f"{options.requests} bad requests in {time.monotonic() - start:.1f} s: {statuses}")
        expect(200 not in statuses or statuses[200] < options.requests // 50, statuses)
        expect(not any(s and s >= 500 for s in statuses if s != 503), statuses)
        half_open = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(100)]
        for s in half_open[:50]:
            s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nContent-Le")
        failures, answers = many_clients(served, options.clients)
        expect(not failures, failures[:3])
        expect(answers == {answer}, answers)
        for s in half_open:
            s.close()
        after = served.resident_bytes()
        many_clients(served, options.clients)
        bad_requests(served, options.requests // 2)
        last = served.resident_bytes()
        print(f"memory of its own: {before >> 20} MiB, {after >> 20} MiB after, {last >> 20} MiB after twice the work")
        expect(options.short or last < after * 1.1 + (16 << 20), "memory grows with the requests")
        expect(json.dumps(ask(served.port, QUESTION)[1]["choices"]) == answer, "another answer afterwards")
        for thread in slow:
            thread.join()
        expect(not hanging, f"slow clients that were never sent away: {hanging}")
        code, seconds = served.stop()
        expect(code == 0, f"exit code {code}")
        print(f"ended in {seconds:.1f} s")


if __name__ == "__main__":
    main()
