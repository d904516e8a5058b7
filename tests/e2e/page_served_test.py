#!/usr/bin/env python3
"""The page against the real server with a tiny model: what the engine reports arrives in the panel.

page_served_test.py PROGRAM MODEL [--shots FOLDER]. Exit code 77: no Chromium here (Debian: chromium)."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "page"))
from chromium import Chromium, find_chromium  # noqa: E402
from served_program import ServedProgram  # noqa: E402


def expect(holds, what, found):
    if not holds:
        raise AssertionError(f"{what}: found {found!r}")


def ask(page, text):
    page.js("document.getElementById('input').focus()")
    page.type(text)
    page.key("Enter")
    page.wait("running === null", 120)


def check_turns(page):
    ask(page, "A first message that is long enough for the second turn to find something to reuse of it.")
    ask(page, "And a second.")
    errors = page.js("open.messages.filter((m) => m.error || (m.note && m.note !== 'ended by the token limit'))")
    expect(errors == [], "errors in the conversation", errors)
    answers = page.js("open.messages.filter((m) => m.role === 'assistant')")
    for answer in answers:
        expect(answer["content"] or answer.get("reasoning"), "an answer", answer)
    tokens = [answer["report"]["prompt_tokens"] for answer in answers]
    expect(tokens[0]["reused"] == 0 and tokens[0]["computed"] > 10, "tokens of the first turn", tokens)
    expect(tokens[1]["reused"] > 10, "tokens reused by the second turn", tokens)
    expect(page.js("document.querySelectorAll('.turn').length") == 2, "bars by turn", None)


def check_panel(page):
    report = page.js("lastReport()")
    stats = page.js("stats")
    stores = {store["store"] for store in report["cache"]["stores"]}
    expect(stores == {store["store"] for store in stats["stores"]}, "stores of the report and of the plan", stores)
    expect(sum(store["bytes"] for store in report["cache"]["stores"]) == report["cache"]["bytes"] > 0, "cache bytes", report)
    kinds = page.js("[...document.querySelectorAll('.store > div:first-child')].map((n) => n.innerText)")
    expect(any("main" in kind for kind in kinds) and any("window" in kind for kind in kinds), "kinds of stores", kinds)
    speed = page.js("document.getElementById('speed').innerText")
    expect(float(speed) > 0, "tokens/s", speed)
    expect(page.js("document.getElementById('model').innerText") == stats["model"], "the model's name", stats["model"])
    expect(stats["reused_tokens"] > 0, "tokens reused, of the server", stats)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("model")
    parser.add_argument("--shots", type=pathlib.Path)
    options = parser.parse_args()
    if not find_chromium():
        print("skipped: there is no chromium on this machine")
        return 77
    with ServedProgram(options.program, model=options.model) as server, Chromium() as page:
        page.scheme("light")
        page.open(server.url + "/")
        page.js("settings = { maxTokens: '24', temperature: '0', thinking: 'off' }")
        check_turns(page)
        check_panel(page)
        if options.shots:
            options.shots.mkdir(parents=True, exist_ok=True)
            page.screenshot(str(options.shots / "served.png"))
        outside = [url for url in page.requests if not url.startswith((server.url, "data:", "about:"))]
        expect(outside == [], "requests to others", outside)
        expect(page.messages == [], "errors of the page", page.messages)
    print("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
