"""Compares chat_oracle with the published encodings of the older generations on random conversations (README.md):
Jinja templates (ChatML, V2, V3) and, with --v32 FILE, the encoder that V3.2's repository ships (encoding_dsv32.py)."""

import argparse
import collections
import importlib.util
import json
import pathlib
import random
import sys

import jinja2

from compare import NAMES, Oracle, arguments, pieces_of, safe_text, text, tools, value

DATA = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/data/text/tokenizer"
# The references write these characters in place of control tokens, so that those typed by users can be told from them.
CONTROL = {chr(0xE000 + i): token for i, token in enumerate([
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "｜DSML｜",
    "<|im_start|>", "<|im_end|>"])}
STAND_IN = {token: mark for mark, token in CONTROL.items()}
BOS, EOS = STAND_IN["<｜begin▁of▁sentence｜>"], STAND_IN["<｜end▁of▁sentence｜>"]

# From tokenizer_config.json of DeepSeek-V2-Chat and of DeepSeek-V3 (the latter without its branches for tools).
V2 = ("{{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ 'User: ' + message['content'] + '\n\n' }}"
      "{% elif message['role'] == 'assistant' %}{{ 'Assistant: ' + message['content'] + eos_token }}"
      "{% elif message['role'] == 'system' %}{{ message['content'] + '\n\n' }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}")
V3 = ("{% set ns = namespace(system_prompt='', is_first_sp=true) %}{%- for message in messages %}{%- if message['role'] == 'system' %}"
      "{%- if ns.is_first_sp %}{% set ns.system_prompt = ns.system_prompt + message['content'] %}{% set ns.is_first_sp = false %}"
      "{%- else %}{% set ns.system_prompt = ns.system_prompt + '\n\n' + message['content'] %}{%- endif %}{%- endif %}{%- endfor %}"
      "{{ bos_token }}{{ ns.system_prompt }}{%- for message in messages %}{%- if message['role'] == 'user' %}"
      "{{'<｜User｜>' + message['content']}}{%- endif %}{%- if message['role'] == 'assistant' and message['content'] is not none %}"
      "{{'<｜Assistant｜>' + message['content'] + '<｜end▁of▁sentence｜>'}}{%- endif %}{%- endfor -%}"
      "{% if add_generation_prompt %}{{'<｜Assistant｜>'}}{% endif %}")


def marked(source):
    for token, mark in STAND_IN.items():
        source = source.replace(token, mark)
    return source


def with_ranges(marked_text):
    """The text with its control tokens, and their places in bytes."""
    result, at, control = [], 0, []
    for character in marked_text:
        token = CONTROL.get(character, character)
        size = len(token.encode())
        if character in CONTROL:
            control.append([at, at + size])
        result.append(token)
        at += size
    return {"text": "".join(result), "control": control}


def template_reference(source):
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(marked(source))

    def render(body):
        return with_ranges(template.render(messages=body["messages"], add_generation_prompt=True, bos_token=BOS, eos_token=EOS))

    return render


def plain_conversation(rng):
    messages = []
    for _ in range(rng.randint(1, 6)):
        role = rng.choice(["system", "user", "user", "user", "assistant", "assistant"])
        messages.append({"role": role, "content": text(rng)})
    return {"messages": messages}


# ---- V3.2 ----

def load_v32(path):
    spec = importlib.util.spec_from_file_location("encoding_dsv32", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def v32_reference(path):
    module = load_v32(path)
    for name, found in vars(module).items():
        if isinstance(found, str) and not name.startswith("__"):
            setattr(module, name, marked(found))

    def render(body):
        messages = [dict(message) for message in body["messages"]]
        if "tools" in body:  # where the encoder wants them
            if messages[0]["role"] != "system":
                messages.insert(0, {"role": "system", "content": ""})
            messages[0]["tools"] = [{"function": shown(tool["function"])} for tool in body["tools"]]
        thinking = body["thinking"]["type"] == "enabled"
        rendered = module.encode_messages(messages, "thinking" if thinking else "chat")
        if messages[-1]["role"] not in ("user", "tool"):  # the encoder leaves the reply's header to user messages
            rendered += marked("<｜Assistant｜>") + marked("<think>" if thinking else "</think>")
        return with_ranges(rendered)

    return render


def shown(function):
    """A tool as we show it, what it lacks written empty (docs/api.md decides so)."""
    return {"name": function["name"], "description": function.get("description", ""), "parameters": function.get("parameters", {})}


def v32_conversation(rng):
    body = {"messages": [], "thinking": {"type": rng.choice(["enabled", "disabled"])}}
    messages = body["messages"]
    if rng.random() < 0.6:
        messages.append({"role": "system", "content": text(rng)})
    for turn in range(rng.randint(1, 4)):
        messages.append({"role": "user", "content": text(rng)})
        if rng.random() < 0.1:
            messages.append({"role": "user", "content": text(rng)})
        for round_ in range(rng.choice([0, 0, 1, 2])):
            ids = [f"c{turn}_{round_}_{i}" for i in range(rng.randint(1, 3))]
            messages.append({"role": "assistant", "content": text(rng), "reasoning_content": text(rng), "tool_calls": [
                {"id": i, "type": "function", "function": {"name": rng.choice(NAMES), "arguments": object_arguments(rng)}} for i in ids]})
            messages += [{"role": "tool", "tool_call_id": i, "content": text(rng)} for i in ids]
        if rng.random() < 0.6:
            messages.append({"role": "assistant", "content": text(rng), "reasoning_content": text(rng) or "hm"})
    if rng.random() < 0.4:
        body["tools"] = tools(rng)
    return body


def object_arguments(rng):
    while True:
        candidate = arguments(rng)
        try:
            parsed = json.loads(candidate, parse_constant=lambda word: 1 / 0)
        except (ValueError, ZeroDivisionError):
            continue
        if isinstance(parsed, dict) and "Infinity" not in json.dumps(parsed) and "\\ud8" not in candidate:
            return candidate


def v32_reply(rng, thinking):
    parts = [safe_text(rng).strip("\n"), "</think>"] if thinking else []
    parts.append(safe_text(rng).strip("\n"))
    calls = rng.random() < 0.6
    if calls:
        parts.append("\n\n<｜DSML｜function_calls>\n")
        for _ in range(rng.randint(1, 3)):
            parts.append(f'<｜DSML｜invoke name="{rng.choice(NAMES)}">\n')
            for key in rng.sample(["a", "city", "名", "p q"], rng.randint(0, 3)):
                is_string = rng.random() < 0.5
                body = safe_text(rng) if is_string else json.dumps(value(rng, 2), ensure_ascii=False)
                body = "1" if "｜DSML｜" in body else body
                parts.append(f'<｜DSML｜parameter name="{key}" string="{"true" if is_string else "false"}">{body}</｜DSML｜parameter>\n')
            parts.append("</｜DSML｜invoke>\n")
        parts.append("</｜DSML｜function_calls>")
    return "".join(parts)


def compare_v32_replies(oracle, path, rng, count, tally, failures):
    module = load_v32(path)
    for _ in range(count):
        thinking = rng.random() < 0.6
        whole = v32_reply(rng, thinking)
        try:
            parsed = module.parse_message_from_completion_text(whole + module.eos_token, "thinking" if thinking else "chat")
        except module.DS32EncodingError:
            tally["deepseek-v3.2 replies refused by the reference"] += 1
            continue
        theirs = {"reasoning": parsed["reasoning_content"], "content": parsed["content"],
                  "calls": [call["function"] for call in parsed["tool_calls"]]}
        question = dict(op="parse", format="deepseek-v3.2", start="reasoning" if thinking else "content", calls_allowed=True)
        answers = [oracle.ask(pieces=pieces, **question) for pieces in ([whole], list(whole), pieces_of(rng, whole))]
        if all(answer == theirs for answer in answers):
            tally["deepseek-v3.2 replies equal"] += 1
        else:
            failures.append(("deepseek-v3.2", "reply", whole, theirs, answers))


def compare_prompts(oracle, version, conversation, render, rng, count, tally, failures):
    for _ in range(count):
        body = conversation(rng)
        theirs = render(body)
        ours = oracle.ask(op="render", format=version, request=body)
        if all(ours.get(key) == theirs[key] for key in theirs):
            tally[f"{version} prompts equal"] += 1
        else:
            failures.append((version, "prompt", body, theirs, ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", help="the chat_oracle program")
    parser.add_argument("--v32", metavar="FILE", help="encoding_dsv32.py")
    parser.add_argument("--count", type=int, default=2000, help="conversations per format")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    oracle = Oracle(options.oracle)
    tally, failures = collections.Counter(), []
    chatml = json.loads((DATA / "smollm2-meta.json").read_text())["chat_template"]
    references = [("chatml", plain_conversation, template_reference(chatml)),
                  ("deepseek-v2", plain_conversation, template_reference(V2)),
                  ("deepseek-v3", plain_conversation, template_reference(V3))]
    if options.v32:
        references.append(("deepseek-v3.2", v32_conversation, v32_reference(options.v32)))
    for version, conversation, render in references:
        compare_prompts(oracle, version, conversation, render, random.Random(options.seed), options.count, tally, failures)
    if options.v32:
        compare_v32_replies(oracle, options.v32, random.Random(options.seed + 1), options.count, tally, failures)
    for name, number in sorted(tally.items()):
        print(f"{number:7d}  {name}")
    print(f"{len(failures):7d}  differences")
    for version, kind, what, theirs, ours in failures[:10]:
        print(f"\n{version} {kind}\n  what      {json.dumps(what, ensure_ascii=False)}\n  reference {theirs!r}\n  ours      {ours!r}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
