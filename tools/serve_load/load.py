#!/usr/bin/env python3
"""Measures `seekline serve` with the default model as clients see it, and prints docs/serving.md's table.

    load.py PROGRAM [--part first|clients|gaps] [--tokens N]

first:   seconds to the first token of a long prompt: cold, asked again, after a restart with --store
clients: tokens per second of 1, 2, 4, 8 and 16 clients together
gaps:    p50 and p99 of the gaps between tokens of a short answer while a long prompt is read, and without one"""

import argparse
import http.client
import json
import pathlib
import statistics
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from served_program import ServedProgram  # noqa: E402

TEXT = "The river rose in the night and nobody in the village slept; each of them had a lamp, a rope and an opinion. "


def stream(port, body):
    """Times at which pieces of the answer came, counted from the request, and the engine's report."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    start = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps({**body, "stream": True, "temperature": 0}),
                       {"Content-Type": "application/json"})
    times, report = [], None
    for line in connection.getresponse():
        if not line.startswith(b"data: {"):
            continue
        event = json.loads(line[6:])
        report = event.get("seekline", report)
        if event["choices"] and event["choices"][0]["text"]:
            times.append(time.monotonic() - start)
    connection.close()
    return times, report


def first(program, tokens):
    prompt = TEXT * (tokens // 25)
    with tempfile.TemporaryDirectory() as store:
        found = {}
        for name in ("cold", "again", "after a restart"):
            if name != "again":
                served = ServedProgram(program, "--store", store)
                stream(served.port, {"prompt": "warm", "max_tokens": 2})
            times, report = stream(served.port, {"prompt": prompt, "max_tokens": 4})
            found[name] = (times[0], report["prompt_tokens"])
            if name != "cold":
                served.stop()
        for name, (seconds, report) in found.items():
            print(f"first token, {report['all']} tokens, {name}: {seconds:.3f} s ({report['reused']} reused, {report['from']})")


def clients(program, tokens):
    with ServedProgram(program) as served:
        for count in (1, 2, 4, 8, 16):
            counts = []

            def one(i):
                times, report = stream(served.port, {"prompt": f"Story {i}. " + TEXT, "max_tokens": tokens})
                counts.append(len(times))

            threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
            start = time.monotonic()
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            seconds = time.monotonic() - start
            print(f"{count} clients: {sum(counts) / seconds:.1f} tokens/s")


def gaps(program, tokens):
    with ServedProgram(program) as served:
        for beside in (False, True):
            stop = threading.Event()

            def reader():
                i = 0
                while not stop.is_set():
                    i += 1
                    stream(served.port, {"prompt": f"Part {i}. " + TEXT * 120, "max_tokens": 1})

            thread = threading.Thread(target=reader)
            if beside:
                thread.start()
                time.sleep(0.3)
            times, _ = stream(served.port, {"prompt": "Once upon a time", "max_tokens": tokens})
            stop.set()
            if beside:
                thread.join()
            between = sorted(b - a for a, b in zip(times, times[1:]))
            print(f"gaps {'beside long prompts' if beside else 'alone'}: p50 {statistics.median(between) * 1e3:.1f} ms, "
                  f"p99 {between[int(len(between) * 0.99)] * 1e3:.1f} ms, longest {between[-1] * 1e3:.1f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--part", choices=["first", "clients", "gaps"], action="append")
    parser.add_argument("--tokens", type=int, default=0)
    options = parser.parse_args()
    for part in options.part or ["first", "clients", "gaps"]:
        {"first": first, "clients": clients, "gaps": gaps}[part](options.program, options.tokens or
                                                                 {"first": 4000, "clients": 60, "gaps": 100}[part])


if __name__ == "__main__":
    main()
