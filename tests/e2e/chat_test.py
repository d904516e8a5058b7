#!/usr/bin/env python3
"""`seekline chat` from a pipe and at a (pseudo) terminal, with a tiny model of random weights: what it says makes no
sense, but the same tokens must always be answered alike.

chat_test.py --seekline PROGRAM --model FOLDER"""

import argparse
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import signal
import subprocess
import sys
import tempfile
import termios
import time

program = model = folder = None


def expect(found, wanted, what):
    if found != wanted:
        raise AssertionError(f"{what}: found {found!r}, expected {wanted!r}")


def expect_in(part, whole, what):
    if part not in whole:
        raise AssertionError(f"{what}: {part!r} is not in {whole!r}")


def command(*options):
    return [program, "chat", "--model", model, *options]


def piped(text, *options, code=0):
    done = subprocess.run(command(*options), input=text.encode(), capture_output=True, timeout=120, check=False)
    expect(done.returncode, code, f"the exit code ({done.stderr[-500:]!r})")
    return done.stdout.decode(errors="replace"), done.stderr.decode()


def saved(name):
    return json.loads((folder / name).read_text())


def a_line_is_a_message():
    out, err = piped(f"hello\n\nmore\n/save {folder}/a.json\n", "--no-think", "--max-tokens", "12")
    chat = saved("a.json")
    expect([m["role"] for m in chat["messages"]], ["user", "assistant"] * 2, "roles")
    expect([m["content"] for m in chat["messages"]][::2], ["hello", "more"], "messages")
    answers = [m["content"] for m in chat["messages"]][1::2]
    expect(out.count("\n") >= 2, True, "answers end with a line")
    for answer in answers:
        expect_in(answer, out, "standard output holds the answers")
    expect_in("saved 4 messages", err, "what /save says")
    expect_in("(ended by --max-tokens)", err, "the limit")


def several_lines_are_one_message():
    piped(f'one \\\ntwo\n"""\nthree\n\n  four\\\n"""\n"""\n/no command\n"""\n/save {folder}/b.json\n', "--no-think", "--max-tokens", "4",
          "--system", "S")
    expect([m["content"] for m in saved("b.json")["messages"] if m["role"] != "assistant"],
           ["S", "one \ntwo", "three\n\n  four\\", "/no command"], "messages")


def a_saved_chat_goes_on_alike():
    whole, _ = piped("first\nsecond\n", "--no-think", "--max-tokens", "16", "--temperature", "1", "--seed", "5")
    begin, _ = piped(f"first\n/save {folder}/c.json\n", "--no-think", "--max-tokens", "16", "--temperature", "1",
                     "--seed", "5")
    end, _ = piped("second\n", "--load", f"{folder}/c.json", "--no-think", "--max-tokens", "16", "--temperature", "1",
                   "--seed", "5")
    expect(begin + end, whole, "the answers")
    loaded, err = piped(f"/load {folder}/c.json\nsecond\n", "--no-think", "--max-tokens", "16", "--temperature", "1",
                        "--seed", "5")
    expect(loaded, end, "the answer after /load")
    expect_in("loaded 2 messages", err, "what /load says")


def reset_and_forks_return_to_the_same_bits():
    turns = "first\n/fork\nsecond\n/fork there\n/back 1\nsecond\n/back\n/back there\nthird\n/reset\nfirst\n/stats\n"
    _, err = piped(turns + f"/save {folder}/d.json\n", "--no-think", "--max-tokens", "10")
    out, _ = piped("first\n/fork\nsecond\n", "--no-think", "--max-tokens", "10")
    again, _ = piped("first\n/fork\nsecond\n/back 1\nsecond\n", "--no-think", "--max-tokens", "10")
    first, _ = piped("first\n", "--no-think", "--max-tokens", "10")
    expect(again, out + out[len(first):], "the second answer, twice")
    fresh, _ = piped("first\nsecond\n/reset\nfirst\n", "--no-think", "--max-tokens", "10")
    expect(fresh, out + first, "the first answer after /reset")
    for words in ("kept as 1", "kept: 1, there", "back at there: 4 messages", "a new conversation"):
        expect_in(words, err, "what the commands say")
    expect(len(saved("d.json")["messages"]), 2, "messages after /reset")


def stats_count_reuse():
    _, err = piped("a rather long first message, so that there is something to reuse\nb\n/stats\n", "--no-think",
                   "--max-tokens", "8")
    found = re.search(r"last prompt: (\d+) tokens, (\d+) reused \((\w+)\), \d+ of them replayed, (\d+) computed", err)
    expect(found is not None, True, f"a line about the last prompt in {err!r}")
    expect(int(found[2]) > 20, True, f"reused tokens in {found[0]}")
    expect(found[3], "session", "where they came from")
    expect_in("main rows", err, "cache bytes by store")
    expect_in("conversation: 4 messages", err, "messages")


def thoughts_stay_out_of_pipes_and_in_the_file():
    out, _ = piped(f"hello\n/save {folder}/e.json\n", "--think", "--max-tokens", "10")
    message = saved("e.json")["messages"][1]
    expect(message.get("reasoning_content", "") != "", True, "reasoning")
    expect(out.strip(), message["content"].strip(), "standard output")


def mistakes_are_sentences_and_the_chat_goes_on():
    (folder / "bad.json").write_text('{"format": "seekline-chat-1", "messages": [{"role": "cook", "content": "x"}]}')
    (folder / "none.json").write_text("[]")
    out, err = piped(f"/what\n/save\n/load {folder}/missing.json\n/load {folder}/bad.json\n/load {folder}/none.json\n"
                     f"/back nowhere\n/save {folder}/no/such/folder/x.json\nhello\n", "--no-think", "--max-tokens", "3")
    for words in ("/what is no command; /help lists them", "/save needs the name of a file", "missing.json cannot be opened",
                  'has the role "cook" in messages[0]', "none.json is no saved chat", "there is no fork nowhere",
                  "x.json cannot be written"):
        expect_in(words, err, "standard error")
    expect(out.strip() != "", True, "the answer that follows")
    piped("", "--think", "--no-think", code=2)
    piped("", "--load", f"{folder}/none.json", code=4)
    _, err = piped("x " * 300 + "\nhello\n", "--no-think", "--context", "120", "--max-tokens", "3")
    expect_in("do not fit", err, "a message beyond the context")


class Terminal:
    def __init__(self, *options):
        pid, self.fd = pty.fork()
        if pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(program, command(*options))
        self.pid = pid
        self.text = ""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, b"\x28\x00\x78\x00\x00\x00\x00\x00")

    def read(self, seconds):
        if select.select([self.fd], [], [], seconds)[0]:
            try:
                self.text += os.read(self.fd, 1 << 16).decode(errors="replace")
            except OSError:
                return False
        return True

    def wait(self, pattern, seconds=60):
        """Reads until the pattern is there, and forgets what came before its end."""
        end = time.monotonic() + seconds
        while (found := re.search(pattern, self.text, re.S)) is None:
            if time.monotonic() > end or not self.read(0.2):
                raise AssertionError(f"{pattern!r} did not come; at the terminal stands {self.text[-800:]!r}")
        self.text = self.text[found.end():]
        return found

    def type(self, text):
        """Control keys a little later: libedit prints its prompt before it makes the terminal raw, and between the two the
        terminal takes such a key for itself."""
        if re.search(r"[\x00-\x0c\x0e-\x1f]", text):
            time.sleep(0.5)
        os.write(self.fd, text.encode())

    def leave(self):
        """Ctrl-D at the prompt."""
        self.wait("> ")
        self.type("\x04")
        return self.end()

    def end(self):
        end = time.monotonic() + 30
        while self.read(0.2):
            if time.monotonic() > end:
                os.kill(self.pid, signal.SIGKILL)
                raise AssertionError(f"the program does not end; at the terminal stands {self.text[-800:]!r}")
        _, status = os.waitpid(self.pid, 0)
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def ctrl_c_stops_the_answer_and_not_the_program():
    chat = Terminal("--no-think", "--max-tokens", "0", "--temperature", "1", "--seed", "3", "--context", "100000")
    chat.wait("Ctrl-C stops")
    chat.wait("> ")
    chat.type("hello\r")
    chat.wait("hello\r\n.{20}")
    os.kill(chat.pid, signal.SIGINT)
    chat.wait(r"\(stopped\)")
    chat.wait("> ")
    chat.type("half a line\x03")  # the terminal makes it a signal
    chat.wait("> $")
    chat.type(f"/save {folder}/f.json\r")
    chat.wait("saved 2 messages")
    expect(chat.leave(), 0, "the exit code")
    messages = saved("f.json")["messages"]
    expect([m["role"] for m in messages], ["user", "assistant"], "roles")
    expect(messages[1]["content"] != "", True, "what was said before Ctrl-C stays")


def lines_are_edited_and_remembered():
    chat = Terminal("--no-think", "--max-tokens", "2")
    chat.wait("> ")
    chat.type("helxo\x1b[D\x08l\r")  # left, rub out the x
    chat.wait("ended by")
    chat.wait("> ")
    chat.type("é中\\\r")
    chat.wait(r"\. ")
    chat.type("line\r")
    chat.wait("ended by")
    chat.wait("> ")
    chat.type("\x1b[A\x1b[A\x1b[A\r")  # the first message again
    chat.wait("ended by")
    chat.wait("> ")
    chat.type(f"/save {folder}/g.json\r")
    chat.wait("saved 6 messages")
    chat.type("/quit\r")
    expect(chat.end(), 0, "the exit code")
    expect([m["content"] for m in saved("g.json")["messages"]][::2], ["hello", "é中\nline", "hello"], "messages")


def thoughts_are_dim():
    chat = Terminal("--think", "--max-tokens", "6")
    chat.wait("> ")
    chat.type("hello\r")
    chat.wait("\x1b\\[2m")
    chat.wait("\x1b\\[0m")
    expect(chat.leave(), 0, "the exit code")


def main():
    global program, model, folder
    parser = argparse.ArgumentParser()
    parser.add_argument("--seekline", required=True)
    parser.add_argument("--model", required=True)
    options = parser.parse_args()
    program, model = options.seekline, options.model
    with tempfile.TemporaryDirectory() as place:
        folder = pathlib.Path(place)
        for check in (a_line_is_a_message, several_lines_are_one_message, a_saved_chat_goes_on_alike,
                      reset_and_forks_return_to_the_same_bits, stats_count_reuse,
                      thoughts_stay_out_of_pipes_and_in_the_file, mistakes_are_sentences_and_the_chat_goes_on,
                      ctrl_c_stops_the_answer_and_not_the_program, lines_are_edited_and_remembered, thoughts_are_dim):
            check()
            print("ok", check.__name__, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
