#!/usr/bin/env python3
"""Drives the page at / in headless Chromium against a mock of the server: chat, markdown, stop, edit and resend,
conversations, the engine's figures, keyboard, light and dark. Screenshots go to the folder given with --shots.

Exit code 77: no Chromium here (Debian: chromium)."""

import argparse
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "page"))
from chromium import Chromium, find_chromium  # noqa: E402
from mock_server import Mock  # noqa: E402

IDLE = "running === null"
shots = None


def shot(page, name):
    if shots:
        page.screenshot(str(shots / (name + ".png")))


def expect(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, expected {wanted!r}")


def ask(page, text, wait=True):
    page.js("document.getElementById('input').focus()")
    page.type(text)
    page.key("Enter")
    if wait:
        page.wait(IDLE)


def text_of(page, selector):
    return page.js(f"[...document.querySelectorAll('{selector}')].map((n) => n.innerText)")


def answers_stream_and_are_kept(page, mock):
    ask(page, "hello there")
    expect(text_of(page, ".assistant .markdown"), ["You said: hello there"], "the answer")
    expect(mock.bodies[-1]["messages"], [{"role": "user", "content": "hello there"}], "the request")
    expect(mock.bodies[-1]["stream"], True, "streaming")
    expect(page.js("document.title"), "hello there – Seekline", "the title")
    page.open(mock.url)
    expect(text_of(page, ".assistant .markdown"), ["You said: hello there"], "the answer after a reload")
    ask(page, "and again")
    expect([m["role"] for m in mock.bodies[-1]["messages"]], ["user", "assistant", "user"], "the history sent")


def markdown_is_drawn_and_never_markup(page, mock):
    page.click("#new-chat")
    ask(page, "markdown please")
    answer = "document.querySelector('.assistant .markdown')"
    for selector, many in (("h1", 1), ("strong", 1), ("del", 1), ("ol > li", 3), ("ol ul > li", 2), ("blockquote", 1),
                           ("table tbody tr", 2), ("pre code", 1), ("hr", 1), ("a", 1), ("img", 0), ("script", 0)):
        expect(page.js(f"{answer}.querySelectorAll('{selector}').length"), many, selector)
    expect(page.js(f"{answer}.querySelector('a').href"), "https://example.com/a_(b)", "the link")
    expect(page.js(f"{answer}.querySelector('tbody tr:last-child td').innerText"), "a | b", "an escaped bar")
    expect(page.js("window.hacked"), None, "injected script")
    expect('return x < 1 and "<b>no markup</b>"' in text_of(page, ".assistant pre")[0], True, "code as text")
    expect("snake_case_words" in text_of(page, ".assistant p")[0], True, "underscores inside words")
    shot(page, "markdown")


def an_answer_can_be_stopped(page, mock):
    page.click("#new-chat")
    before = mock.broken
    ask(page, "slow one", wait=False)
    page.wait("/reading the prompt, \\d+ of \\d+ tokens/.test(document.getElementById('state').innerText)")
    expect(page.js("document.querySelectorAll('.turn').length"), 1, "the turn's tokens while the prompt is read")
    shot(page, "reading")
    page.wait("document.querySelector('.assistant .markdown')?.innerText.length > 40")
    expect(page.js("document.getElementById('cache-total').innerText") != "", True, "cache bytes while it answers")
    expect(page.js("document.getElementById('stop').classList.contains('hidden')"), False, "a stop button")
    shot(page, "streaming")
    page.key("Escape")
    page.wait(IDLE)
    expect(text_of(page, ".stopped"), ["stopped"], "the note")
    kept = text_of(page, ".assistant .markdown")[0]
    expect(kept.startswith("word word"), True, "what was said stays")
    page.wait("true")
    ask(page, "slow two", wait=False)
    page.wait("document.querySelectorAll('.assistant').length === 2 && running.pieces > 3")
    expect(mock.bodies[-1]["messages"][1]["content"].strip(), kept.strip(), "a stopped answer is part of the history")
    page.click("#stop")
    page.wait(IDLE)
    expect(mock.broken >= before + 1, True, "the server sees the client go")


def messages_can_be_edited_and_sent_again(page, mock):
    page.click("#new-chat")
    ask(page, "first question")
    ask(page, "second question")
    page.js("document.getElementById('input').focus()")
    page.key("ArrowUp")
    page.wait("document.activeElement.closest('.message.user') !== null")
    page.key("Escape")
    page.wait("document.querySelector('.message textarea') === null")
    page.js("document.querySelector('.message.user .tools button').click()")
    page.wait("document.activeElement.matches('.message textarea')")
    page.type(", changed")
    page.key("Enter")
    page.wait(IDLE)
    expect(text_of(page, ".assistant .markdown"), ["You said: first question, changed"], "later messages are gone")
    expect(len(mock.bodies[-1]["messages"]), 1, "messages sent")
    page.js("document.querySelector('.again').click()")
    page.wait(IDLE)
    expect(len(mock.bodies[-1]["messages"]), 1, "messages sent for another answer")
    expect(text_of(page, ".assistant .markdown"), ["You said: first question, changed"], "one answer")


def conversations_are_apart(page, mock):
    titles = text_of(page, "#chat-list .name")
    expect(titles[:2], ["first question", "slow one"], "the list, latest first")
    page.key("ArrowDown", modifiers=1)
    expect(page.js("document.getElementById('title').innerText"), "slow one", "Alt Down")
    page.key("ArrowUp", modifiers=1)
    page.key("n", code="KeyN", modifiers=1)
    expect(page.js("document.getElementById('title').innerText"), "New conversation", "Alt N")
    # Another conversation can be read while one is answered.
    ask(page, "slow elsewhere", wait=False)
    page.wait("running !== null && running.pieces > 2")
    page.key("ArrowDown", modifiers=1)
    expect(text_of(page, ".assistant .markdown"), ["You said: first question, changed"], "the other conversation")
    page.js("stop()")
    page.wait(IDLE)
    many = page.js("chats.length")
    page.js("document.querySelector('#chat-list li.open .delete').click()")
    expect(page.js("chats.length"), many - 1, "conversations after deleting one")
    page.open(mock.url)
    expect("first question" in text_of(page, "#chat-list .name"), False, "the deleted one after a reload")


def the_engine_is_shown(page, mock):
    page.click("#new-chat")
    ask(page, "think about the cache of this conversation, please")
    expect(text_of(page, "details.thoughts summary"), ["Thoughts"], "reasoning folds away")
    expect(page.js("document.querySelector('details.thoughts > div').textContent"), "First I weigh the matter.", "reasoning")
    ask(page, "long: and a second turn, so that something can be reused")
    expect(mock.bodies[-1]["messages"][1].get("reasoning_content"), "First I weigh the matter.", "reasoning is sent back")
    expect(page.js("document.querySelectorAll('.turn').length"), 2, "turns")
    report = page.js("open.messages.at(-1).report")
    tokens = report["prompt_tokens"]
    expect(page.js("document.querySelector('.turn:last-child span:last-child').innerText"),
           f"{tokens['reused']} / {tokens['replayed']} / {tokens['computed']}", "tokens of the last turn")
    kinds = text_of(page, ".store > div:first-child > span:first-child")
    expect(sorted(kinds), ["index key × 6", "main × 6", "window × 6"], "stores by kind")
    expect(page.js("document.querySelectorAll('#all-stores tr').length"), 18, "every store")
    expect(page.js("document.getElementById('speed').innerText"), "24.5", "tokens/s")
    expect(text_of(page, "#speed-note"), ["61 % of 40.1, the most this machine's memory (58.2 GB/s) allows"], "the limit")
    expect(text_of(page, ".stopped"), ["ended by the token limit"], "the end by length")
    shot(page, "engine-light")


def errors_are_sentences(page, mock):
    page.click("#new-chat")
    ask(page, "refuse this")
    expect(text_of(page, ".message.error")[0].split("\n")[0],
           "This model's maximum context length is 131072 tokens. However, your messages hold 140001.", "the refusal")
    ask(page, "break in the middle")
    expect(text_of(page, ".stopped"), ["the engine stumbled"], "a stream that breaks")
    expect([m["content"] for m in mock.bodies[-1]["messages"]], ["refuse this", "break in the middle"], "no error is sent")


def settings_are_sent(page, mock):
    page.click("#open-settings")
    for name, value in (("system", "Be brief."), ("temperature", "0.5"), ("maxTokens", "77"), ("seed", "3"),
                        ("thinking", "off"), ("apiKey", "k")):
        page.js(f"document.querySelector('[name={name}]').value = '{value}'")
    shot(page, "settings")
    page.js("document.querySelector('#settings form').requestSubmit()")
    page.wait("!document.querySelector('#settings').open")
    page.click("#new-chat")
    ask(page, "with settings")
    body = mock.bodies[-1]
    expect(body["messages"][0], {"role": "system", "content": "Be brief."}, "the system message")
    expect((body["temperature"], body["max_tokens"], body["seed"], body["thinking"]), (0.5, 77, 3, {"type": "disabled"}),
           "settings")


def it_has_two_schemes_and_fits_small_windows(page, mock):
    background = "getComputedStyle(document.body).backgroundColor"
    page.js("openChat(chats.find((chat) => chat.title.startsWith('think')))")
    light = page.js(background)
    page.scheme("dark")
    page.wait(f"{background} !== '{light}'")
    shot(page, "engine-dark")
    page.js("openChat(chats.find((chat) => chat.title.startsWith('markdown')))")
    shot(page, "markdown-dark")
    page.js("document.getElementById('theme').click()")
    expect(page.js(background), light, "the chosen scheme")
    for width, name in ((900, "medium"), (420, "small")):
        page.size(width, 800)
        expect(page.js("document.documentElement.scrollWidth <= innerWidth"), True, f"no sideways scrolling at {width}")
        shot(page, name)
    page.js("document.getElementById('show-engine').click()")
    page.wait("document.getElementById('engine').getBoundingClientRect().right <= innerWidth + 1")
    shot(page, "small-engine")
    page.js("document.getElementById('log').dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
    page.wait("document.getElementById('engine').getBoundingClientRect().left >= innerWidth")


def nothing_comes_from_outside(page, mock):
    expect([url for url in page.requests if not url.startswith((mock.url, "data:", "about:"))], [], "requests to others")
    expect([m for m in page.messages if "400 (Bad Request)" not in m], [], "errors of the page")


def main():
    global shots
    parser = argparse.ArgumentParser()
    parser.add_argument("--shots", type=pathlib.Path)
    shots = parser.parse_args().shots
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
    if not find_chromium():
        print("skipped: there is no chromium on this machine")
        return 77
    mock = Mock()
    with Chromium() as page:
        page.scheme("light")
        page.open(mock.url)
        for check in (answers_stream_and_are_kept, markdown_is_drawn_and_never_markup, an_answer_can_be_stopped,
                      messages_can_be_edited_and_sent_again, conversations_are_apart, the_engine_is_shown,
                      errors_are_sentences, settings_are_sent, it_has_two_schemes_and_fits_small_windows,
                      nothing_comes_from_outside):
            check(page, mock)
            print("ok", check.__name__, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
