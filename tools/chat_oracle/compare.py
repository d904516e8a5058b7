"""Compares chat_oracle with DeepSeek's library deepseek-recipe on random conversations and replies (README.md)."""

import argparse
import collections
import json
import random
import re
import subprocess
import sys

import deepseek_recipe as recipe

IMAGE = "<｜deepseek_image｜>"
VERSIONS = {
    "deepseek-v4.1": ("DeepSeek-V4.1-Flash", recipe.DeepseekV41Encoding, " calls", " invoke", " parameter"),
    "deepseek-v4": ("DeepSeek-V4-Pro", recipe.DeepseekV4Encoding, "tool_calls", "invoke", "parameter"),
}
TOKENS = recipe.SpecialTokens(image=IMAGE)

WORDS = [
    "hello", "", " ", "\n", "\n\n", "json", "JSON ", "日本語のテキスト", "😀👋🏽", "é", "\u2028", "\x7f", "\t", "a b", "<", "</", ">",
    "<｜User｜>", "<｜Assistant｜>", "<think>", "</think>", "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜System｜>", "｜DSML｜",
    "<｜DSML｜", "</｜DSML｜", "<｜DSML｜ calls>", "<｜DSML｜tool_calls>", "</｜DSML｜ parameter>", "<｜latest_reminder｜>", "<｜DS", "<tool_result>",
    "</tool_result>", '"', "\\", "{}", "&amp;", "｜", "\u0301", "العربية", "x" * 50, "\r\n", "```json\n{}\n```", "0", "null",
]
NAMES = ["f", "get_weather", "search", "run-it", "A_1"]
HALF_TAG_THEN_NEWLINE = re.compile(r"(<|</|<｜|<｜D|<｜DS|</｜)\n+<")
KEYS = ["a", "city", "名", "a b", "x.y", "", "k/1", "arguments"]


def text(rng, most=4):
    return "".join(rng.choice(WORDS) for _ in range(rng.randint(0, most)))


def number(rng):
    return rng.choice([
        lambda: rng.randint(-10, 10), lambda: rng.randint(-2**63, 2**64 - 1), lambda: rng.random(),
        lambda: rng.uniform(-1, 1) * 10.0 ** rng.randint(-30, 30), lambda: float(rng.randint(-5, 5)),
        lambda: rng.choice([1e16, 1e15, 1e-5, 1e-4, 5e-324, 1.7976931348623157e308, 1e22, 1e21, 0.1, 123456789.125]),
    ])()


def value(rng, depth=3):
    kinds = ["text", "number", "bool", "null"] + (["list", "object"] if depth else [])
    kind = rng.choice(kinds)
    if kind == "text":
        return text(rng, 2)
    if kind == "number":
        return number(rng)
    if kind == "bool":
        return rng.random() < 0.5
    if kind == "null":
        return None
    if kind == "list":
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {rng.choice(KEYS + ["q\"", "\n"]): value(rng, depth - 1) for _ in range(rng.randint(0, 3))}


def arguments(rng):
    if rng.random() < 0.15:
        return rng.choice(["", "not json", "[1, 2]", "null", '"x"', "{", '{"a": 1,}', "3", '{"a": NaN}', '{"a": "\\ud800"}', " {} ",
                           '{"a": 1e400}', '{"a": 01}', "{\"a\": 1}x", "\ufeff{}"])
    keys = rng.sample(KEYS, rng.randint(0, 4))
    return json.dumps({key: value(rng) for key in keys}, ensure_ascii=rng.random() < 0.3,
                      indent=rng.choice([None, None, 1]))


def content(rng, images):
    if rng.random() < 0.7:
        return text(rng)
    parts = []
    for _ in range(rng.randint(0, 3)):
        if images and rng.random() < 0.2:
            parts.append({"type": "image_url", "image_url": {"url": rng.choice(["https://e.com/a.png", "data:image/png;base64,AA=="])}})
        else:
            parts.append({"type": "text", "text": text(rng)})
    return parts


def schema(rng):
    properties = {key: rng.choice([{"type": "string"}, {"type": "integer", "minimum": number(rng)}, {"type": "array", "items": {"type": "number"}},
                                   {"type": "string", "description": text(rng, 2)}, {"type": "string", "enum": ["x", "é"]}])
                  for key in rng.sample(["a", "b", "c", "日本"], rng.randint(0, 3))}
    result = {"type": "object", "properties": properties}
    if rng.random() < 0.5:
        result["required"] = list(properties)
    if rng.random() < 0.2:
        result["additionalProperties"] = False
    return result


def tools(rng):
    result = []
    for name in rng.sample(NAMES, rng.randint(1, 3)):
        function = {"name": name}
        if rng.random() < 0.8:
            function["description"] = text(rng)
        if rng.random() < 0.8:
            function["parameters"] = schema(rng)
        result.append({"type": "function", "function": function})
    return result


def conversation(rng):
    """A request body, now and then one that must be refused."""
    body = {"messages": []}
    messages = body["messages"]
    images = rng.random() < 0.2
    if rng.random() < 0.6:
        messages.append({"role": "system", "content": content(rng, images)})
    for turn in range(rng.randint(1, 5)):
        if rng.random() < 0.1:
            messages.append({"role": "latest_reminder", "content": text(rng)})
        if rng.random() < 0.1:
            messages.append({"role": "system", "content": content(rng, False)})
        if rng.random() < 0.9:
            for _ in range(rng.choice([1, 1, 1, 2, 3])):
                messages.append({"role": "user", "content": content(rng, images)})
        if rng.random() < 0.7:
            message = {"role": "assistant", "content": content(rng, False)}
            if rng.random() < 0.6:
                message["reasoning_content"] = text(rng)
            if rng.random() < 0.35:
                ids = [f"c{turn}_{i}" for i in range(rng.randint(1, 3))]
                message["tool_calls"] = [{"id": i, "type": "function", "function": {"name": rng.choice(NAMES), "arguments": arguments(rng)}}
                                         for i in ids]
                if rng.random() < 0.3:
                    message["content"] = rng.choice([None, ""])
                messages.append(message)
                rng.shuffle(ids)
                if rng.random() < 0.03:
                    ids = ids[1:]
                for i in ids:
                    messages.append({"role": "tool", "tool_call_id": i, "content": content(rng, images)})
            else:
                messages.append(message)
    if rng.random() < 0.1 and messages:
        message = {"role": "assistant", "content": text(rng), "prefix": True}
        if rng.random() < 0.5:
            message["reasoning_content"] = text(rng)
        messages.append(message)
    if rng.random() < 0.4:
        body["tools"] = tools(rng)
        roll = rng.random()
        if roll < 0.1:
            body["tool_choice"] = rng.choice(["auto", "none", "required"])
        elif roll < 0.2:
            name = rng.choice(body["tools"] + [{"function": {"name": "nope"}}])["function"]["name"]
            body["tool_choice"] = {"type": "function", "function": {"name": name}}
    roll = rng.random()
    if roll < 0.05:
        body["response_format"] = {"type": "json_object"}
    elif roll < 0.1:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema(rng)}}
    if rng.random() < 0.5:
        body["thinking"] = {"type": rng.choice(["enabled", "disabled"])}
    if rng.random() < 0.3:
        body["reasoning_effort"] = rng.choice(["none", "minimal", "low", "medium", "high", "xhigh", "ultra", "max", "HIGH", ""])
    return body


class Oracle:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, **question):
        self.process.stdin.write(json.dumps(question).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def start_of(options):
    if options.starts_in_tool_calls:
        return "calls"
    stage = options.thinking_initial_stage
    for known, name in ((recipe.ThinkingInitialStage.ReasoningStart, "reasoning"),
                        (recipe.ThinkingInitialStage.ReasoningContinuation, "reasoning_continued"),
                        (recipe.ThinkingInitialStage.ContentContinuation, "content_continued")):
        if stage == known:
            return name
    return "content"


class Vendor:
    def __init__(self, version):
        self.model, encoding = VERSIONS[version][:2]
        self.encoding = encoding().with_special_tokens(TOKENS)
        self.options = recipe.ConversionOptions().with_special_tokens(TOKENS)

    def convert(self, body):
        """The converted request, or the reason why it is refused."""
        try:
            return recipe.ChatCompletionRequest(json.dumps({"model": self.model, **body})).convert(self.options)
        except (recipe.ConversionError, ValueError) as error:
            return str(getattr(error, "body", error))

    def render(self, converted):
        rendered = self.encoding.render_conversation(converted.conversation)
        prompt = rendered.prompt
        control = [[len(prompt[:begin].encode()), len(prompt[:end].encode())] for begin, end in rendered.special_ranges]
        images = [source.data_url or source.url for source in rendered.image_sources]
        return {"text": prompt, "control": control, "images": images, "start": start_of(converted.parsing_options)}

    def parse(self, converted, pieces):
        generator = recipe.ChatCompletionRequest.chunk_generator(converted, "id", self.model)
        processor = recipe.StreamProcessor(generator, converted.parsing_options)
        response = recipe.ChatCompletionResponse("id", self.model, 0, 0, 0)
        chunks = list(processor.push(recipe.InferenceChunk.ready(prompt_usage=recipe.PromptUsage())))
        for piece in pieces:
            chunks += processor.push(recipe.InferenceChunk.text(piece))
        chunks += processor.push(recipe.InferenceChunk.finish(recipe.InferenceFinishReason.Stop))
        chunks += processor.finish()
        for chunk in chunks:
            response.accumulate(chunk)
        message = json.loads(response.to_json())["choices"][0]["message"]
        calls = [{"name": call["function"]["name"], "arguments": call["function"]["arguments"]} for call in message.get("tool_calls") or []]
        return {"reasoning": message.get("reasoning_content") or "", "content": message.get("content") or "", "calls": calls}


# ---- differences that docs/api.md decides ----

def ours_refuses_by_decision(body, error):
    if "tool_choice is required, and the request has no tools" in error:
        return "required without tools: refused by us"
    return None


def vendor_refuses_by_decision(reason):
    if "Function call should not be used with prefix" in reason:
        return "prefix beside tools: refused by the vendor"
    if "json_object should not be used with prefix" in reason:
        return "prefix beside json_object: refused by the vendor"
    return None


def decided_text(version, body, vendor_text):
    """The vendor's text with our decisions worked in, and their names."""
    names = []
    if version == "deepseek-v4" and 'name="' in vendor_text:
        blank = re.sub(r'(<｜DSML｜invoke name="(?:f|get_weather|search|run-it|A_1)">\n)(</｜DSML｜invoke>)', r"\1\n\2", vendor_text)
        if blank != vendor_text:
            names.append("V4: a call without arguments has an empty line")
            vendor_text = blank
    messages = body["messages"]
    tidy = [m for m in messages if not (m["role"] == "system" and m["content"] in ("", [], [{"type": "text", "text": ""}]))]
    if version == "deepseek-v4.1" and len(tidy) == 1 and tidy[0].get("prefix") and body.get("thinking") != {"type": "disabled"}:
        names.append("V4.1: a lone prefix message")
    roles = [m["role"] for m in tidy]
    if version == "deepseek-v4.1" and ("latest_reminder",) * 2 in zip(roles, roles[1:]):
        names.append("V4.1: the second of two reminders, which the vendor drops")
    if version == "deepseek-v4.1" and not tidy:
        names.append("V4.1: nothing but an empty system message")
    return vendor_text, names


def numbers_as_python(version, text):
    """V4's library writes 0.00001 and 1e-7 where Python writes 1e-05 and 1e-07."""
    if version != "deepseek-v4":
        return text

    def repl(match):
        token = match.group(0)
        return repr(float(token)) if re.fullmatch(r"-?\d+(\.\d+)?(e-?\d+)?", token) and ("." in token or "e" in token) else token

    return re.sub(r"(?<![\w.\"+-])-?\d+(?:\.\d+)?(?:e-\d+)?(?![\w.\"])", repl, text)


def without_breaks(text_):
    return re.sub(r"</think>|\n", "", text_)


def is_json(text_):
    try:
        json.loads(text_)
        return True
    except ValueError:
        return False


def decided_reply(whole, theirs, ours):
    """Names of differences between well-formed replies that our documentation decides."""
    names = []
    same = json.loads(json.dumps(ours))
    for call, other in zip(same["calls"], theirs["calls"]):
        # its reader leaves the name at a blank, and does not escape a line end in it
        if is_json(call["arguments"]) and not is_json(other["arguments"]):
            call["arguments"] = other["arguments"]
            names.append("a blank or line end in a parameter's name, with which the vendor's arguments do not parse")
    if HALF_TAG_THEN_NEWLINE.search(whole):
        for key in ("reasoning", "content"):
            if theirs[key] == same[key] + "\n":
                same[key] += "\n"
                names.append("a newline between half a tag and a tag")
    return sorted(set(names)) if same == theirs else []


def compare_prompts(oracle, version, rng, count, tally, failures):
    vendor = Vendor(version)
    for _ in range(count):
        body = conversation(rng)
        if not body["messages"]:
            continue
        converted = vendor.convert(body)
        ours = oracle.ask(op="render", format=version, request=body)
        refused = isinstance(converted, str)
        if refused != ("error" in ours):
            reason = vendor_refuses_by_decision(converted) if refused else ours_refuses_by_decision(body, ours["error"])
            if reason:
                tally[f"{version} decided: {reason}"] += 1
            else:
                failures.append((version, "refusal", body, converted if refused else "accepted", ours))
            continue
        if refused:
            tally[f"{version} refused by both"] += 1
            continue
        theirs = vendor.render(converted)
        if ours["start"] == "content_continued" and theirs["start"] == "content":
            ours["start"] = "content"  # with thinking off the vendor does not tell the two apart
        if all(ours[key] == theirs[key] for key in theirs):
            tally[f"{version} prompts equal"] += 1
            continue
        expected, names = decided_text(version, body, theirs["text"])
        if numbers_as_python(version, expected) == numbers_as_python(version, ours["text"]) and (names or version == "deepseek-v4"):
            tally[f"{version} decided: {'; '.join(names) or 'V4: floats as Python prints them'}"] += 1
        elif names and names[0].startswith("V4.1"):
            tally[f"{version} decided: {names[0]}"] += 1
        else:
            failures.append((version, "prompt", body, theirs, ours))


# ---- replies ----

def call_block(rng, version, broken):
    _, _, block, invoke, parameter = VERSIONS[version]
    newline = rng.choice(["\n"] * 9 + [""])
    parts = [f"<｜DSML｜{block}>", newline]
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        parts += [f'<｜DSML｜{invoke} name="', rng.choice(NAMES), '">', newline]
        for key in rng.sample(["a", "city", "名", "p q", ""], rng.randint(0, 3)):
            is_string = rng.random() < 0.5
            body = safe_text(rng) if is_string else json.dumps(value(rng, 2), ensure_ascii=False)
            if "｜DSML｜" in body:
                body = "1"
            parts += [f'<｜DSML｜{parameter} name="', key, '" string="', "true" if is_string else "false", '">', body,
                      f"</｜DSML｜{parameter}>", newline]
        parts += [f"</｜DSML｜{invoke}>", newline]
    parts.append(f"</｜DSML｜{block}>")
    if broken:
        kind = rng.randint(0, 3)
        place = rng.randrange(len(parts))
        if kind == 0:
            joined = "".join(parts)
            return joined[: rng.randrange(1, len(joined))]
        if kind == 1:
            del parts[place]
        elif kind == 2:
            parts.insert(place, rng.choice(["junk", "<｜DSML｜", f"</｜DSML｜{block}>", f"<｜DSML｜{block}>", '"', ">", "</think>"]))
        else:
            parts.insert(place, parts[rng.randrange(len(parts))])
    return "".join(parts)


def safe_text(rng):
    """Text in which the vendor's reader, too, sees no tag."""
    while True:
        result = text(rng)
        if "</think>" not in result and "<｜DSML｜" not in result and "</｜DSML｜" not in result and "｜DSML｜" not in result:
            return result


def reply(rng, version, thinking, broken):
    parts = []
    if thinking:
        parts.append(safe_text(rng))
        if rng.random() < 0.9:
            parts.append(rng.choice(["</think>", "\n</think>", "</think>\n\n"]))
    parts.append(safe_text(rng))
    if rng.random() < 0.6:
        parts.append(rng.choice(["\n\n"] * 5 + ["", "\n", "\n\n\n", " "]))
        parts.append(call_block(rng, version, broken))
        if rng.random() < 0.1:
            parts.append(rng.choice(["\n", "more", "\n\n" + call_block(rng, version, False)]))
    elif rng.random() < 0.2:
        whole = "\n\n<｜DSML"
        parts.append(whole[: rng.randrange(1, len(whole) + 1)])
    return "".join(parts)


def pieces_of(rng, whole):
    most = rng.choice([1, 3, 10, 1000])
    pieces, at = [], 0
    while at < len(whole):
        size = rng.randint(1, most)
        pieces.append(whole[at : at + size])
        at += size
    return pieces


def compare_replies(oracle, version, rng, count, tally, failures):
    vendor = Vendor(version)
    tool = [{"type": "function", "function": {"name": "f"}}]
    for i in range(count):
        thinking = rng.random() < 0.6
        with_tools = rng.random() < 0.8
        broken = with_tools and i % 3 == 0
        body = {"messages": [{"role": "user", "content": "q"}], "thinking": {"type": "enabled" if thinking else "disabled"}}
        if with_tools:
            body["tools"] = tool
        whole = reply(rng, version, thinking, broken)
        theirs = vendor.parse(vendor.convert(body), pieces_of(rng, whole))
        question = dict(op="parse", format=version, start="reasoning" if thinking else "content", calls_allowed=with_tools)
        answers = [oracle.ask(pieces=pieces, stream_calls=rng.random() < 0.5, **question)
                   for pieces in ([whole], list(whole), pieces_of(rng, whole), pieces_of(rng, whole))]
        ours = answers[0]
        if any(answer != ours for answer in answers):
            failures.append((version, "split", whole, answers[0], answers))
        elif ours == theirs:
            tally[f"{version} replies equal"] += 1
        elif decided_reply(whole, theirs, ours):
            tally[f"{version} decided: {'; '.join(decided_reply(whole, theirs, ours))}"] += 1
        elif broken and not ours["calls"] and without_breaks(ours["reasoning"] + ours["content"]) == without_breaks(whole):
            tally[f"{version} decided: a malformed block stays text"] += 1
        else:
            failures.append((version, "reply", whole, theirs, ours))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("oracle", help="the chat_oracle program")
    parser.add_argument("--count", type=int, default=2000, help="conversations and replies per version")
    parser.add_argument("--seed", type=int, default=1)
    arguments_ = parser.parse_args()
    oracle = Oracle(arguments_.oracle)
    tally, failures = collections.Counter(), []
    for version in VERSIONS:
        compare_prompts(oracle, version, random.Random(arguments_.seed), arguments_.count, tally, failures)
        compare_replies(oracle, version, random.Random(arguments_.seed + 1), arguments_.count, tally, failures)
    for name, number_of in sorted(tally.items()):
        print(f"{number_of:7d}  {name}")
    print(f"{len(failures):7d}  differences that nothing decides")
    for version, kind, what, theirs, ours in failures[:10]:
        print(f"\n{version} {kind}\n  what   {json.dumps(what, ensure_ascii=False)}\n  vendor {theirs!r}\n  ours   {ours!r}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
