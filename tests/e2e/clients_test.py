#!/usr/bin/env python3
"""Drives `seekline serve` and the default model with the official client packages `openai` and `anthropic`.

    clients_test.py PROGRAM VENV_FOLDER [--short]

The packages come from PyPI into VENV_FOLDER, once. Exit code 77: PyPI or the default model cannot be reached."""

import os
import pathlib
import subprocess
import sys
import venv

SKIP = 77
PACKAGES = ["openai==3.57.0", "anthropic==2.14.0", "jsonschema"]


def enter_venv(folder):
    """Starts this script again with the packages at hand."""
    python = folder / "bin" / "python"
    marker = folder / "packages.txt"
    if not marker.exists() or marker.read_text() != "\n".join(PACKAGES):
        venv.create(folder, with_pip=True, symlinks=True, clear=True)
        command = [str(python), "-m", "pip", "install", "-q", "--timeout", "20", "--retries", "1", *PACKAGES]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            print("skipped: PyPI cannot be reached:", done.stderr.strip().splitlines()[-1:], file=sys.stderr)
            sys.exit(SKIP)
        marker.write_text("\n".join(PACKAGES))
    os.execv(python, [str(python), __file__, *sys.argv[1:], "--inside"])


if __name__ == "__main__" and "--inside" not in sys.argv:
    enter_venv(pathlib.Path(sys.argv[2]).resolve())

import asyncio  # noqa: E402
import json  # noqa: E402
import time  # noqa: E402
import unittest  # noqa: E402
import urllib.request  # noqa: E402

import anthropic  # noqa: E402
import jsonschema  # noqa: E402
import openai  # noqa: E402

from served_program import ServedProgram, default_model_is_there  # noqa: E402

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
                                           "tags": {"type": "array", "items": {"enum": ["a", "b"]}}},
          "required": ["name", "age"], "additionalProperties": False}
TINY = pathlib.Path(__file__).resolve().parents[1] / "golden" / "data" / "models" / "v41-tiny"
SHORT = "--short" in sys.argv  # for sanitizers
MANY = 6 if SHORT else 32      # clients at once
served = thinks = None


def question(text="What is the capital of France? Answer in one sentence."):
    return [{"role": "user", "content": text}]


def own(path, body=None):
    """One of this server's own paths."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(served.url + path, data, {"x-api-key": "secret", "Content-Type": "application/json"})
    with urllib.request.urlopen(request) as reply:
        return json.load(reply)


class OpenAi(unittest.TestCase):
    def setUp(self):
        self.client = openai.OpenAI(base_url=served.url + "/v1", api_key="secret", max_retries=0)
        self.model = self.client.models.list().data[0].id

    def test_a_question_is_answered(self):
        reply = self.client.chat.completions.create(model=self.model, messages=question(), temperature=0, max_tokens=40)
        self.assertIn("Paris", reply.choices[0].message.content)
        self.assertEqual(reply.choices[0].finish_reason, "stop")
        self.assertEqual(reply.usage.total_tokens, reply.usage.prompt_tokens + reply.usage.completion_tokens)
        self.assertEqual(reply.model, self.model)

    def test_a_stream_says_the_same(self):
        whole = self.client.chat.completions.create(model=self.model, messages=question(), temperature=0, max_tokens=40)
        chunks = list(self.client.chat.completions.create(model=self.model, messages=question(), temperature=0, max_tokens=40,
                                                          stream=True, stream_options={"include_usage": True}))
        text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, whole.usage.completion_tokens)

    def test_the_second_turn_is_cached(self):
        first = question("Tell me something about the sea. " * 20)
        reply = self.client.chat.completions.create(model=self.model, messages=first, temperature=0, max_tokens=30)
        turns = first + [{"role": "assistant", "content": reply.choices[0].message.content}, *question("And the land?")]
        again = self.client.chat.completions.create(model=self.model, messages=turns, temperature=0, max_tokens=5)
        self.assertGreater(again.usage.prompt_tokens_details.cached_tokens, reply.usage.prompt_tokens * 0.9)

    def test_n_seed_and_logprobs(self):
        ask = dict(model=self.model, messages=question("Name a colour."), max_tokens=8, n=3, seed=7, temperature=1.0,
                   logprobs=True, top_logprobs=2)
        first, second = (self.client.chat.completions.create(**ask) for _ in range(2))
        self.assertEqual([c.message.content for c in first.choices], [c.message.content for c in second.choices])
        for choice in first.choices:
            tokens = choice.logprobs.content
            self.assertEqual(bytes(b for t in tokens for b in t.bytes).decode(errors="replace"), choice.message.content)
            self.assertTrue(all(len(t.top_logprobs) == 2 and t.logprob <= 0 for t in tokens))

    def test_stop_and_logit_bias(self):
        reply = self.client.chat.completions.create(model=self.model, messages=question(), temperature=0, max_tokens=40,
                                                    stop=["Paris"])
        self.assertNotIn("Paris", reply.choices[0].message.content)
        token = own("/tokenize", {"text": " Paris"})["tokens"][0]
        reply = self.client.chat.completions.create(model=self.model, messages=question(), temperature=0, max_tokens=40,
                                                    logit_bias={str(token): -100})
        self.assertNotIn(" Paris", reply.choices[0].message.content)

    def test_tools(self):
        tools = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city",
                                                   "parameters": WEATHER}}]
        reply = self.client.chat.completions.create(
            model=self.model, messages=question("What is the weather in Paris? Call get_weather."), tools=tools,
            tool_choice={"type": "function", "function": {"name": "get_weather"}}, temperature=0, max_tokens=80)
        choice = reply.choices[0]
        self.assertEqual(choice.finish_reason, "tool_calls", choice.message)
        call = choice.message.tool_calls[0]
        self.assertEqual(call.function.name, "get_weather")
        json.loads(call.function.arguments)
        answer = question("What is the weather in Paris?") + [choice.message.model_dump(exclude_none=True), {
            "role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}]
        final = self.client.chat.completions.create(model=self.model, messages=answer, tools=tools, temperature=0, max_tokens=40)
        self.assertTrue(final.choices[0].message.content)

    def test_json_schema_is_kept(self):
        for seed in range(4):
            reply = self.client.chat.completions.create(
                model=self.model, messages=question("Invent a person."), max_tokens=80, seed=seed, temperature=1.2,
                response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}})
            jsonschema.validate(json.loads(reply.choices[0].message.content), PERSON)
        reply = self.client.chat.completions.create(model=self.model, messages=question("Answer in json."), max_tokens=50,
                                                    response_format={"type": "json_object"}, temperature=1.0)
        self.assertIsInstance(json.loads(reply.choices[0].message.content), dict)
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(
                model=self.model, messages=question(),
                response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "string", "minLength": 3}}})
        self.assertIn("minLength", str(caught.exception))

    def test_responses(self):
        reply = self.client.responses.create(model=self.model, input=question()[0]["content"], temperature=0, max_output_tokens=40)
        self.assertIn("Paris", reply.output_text)
        with self.client.responses.stream(model=self.model, input=question()[0]["content"], temperature=0,
                                          max_output_tokens=40) as stream:
            text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
            self.assertEqual(stream.get_final_response().output_text, text)
        self.assertEqual(text, reply.output_text)

    def test_completions(self):
        reply = self.client.completions.create(model=self.model, prompt="One, two, three,", max_tokens=6, temperature=0)
        self.assertIn("four", reply.choices[0].text)

    def test_an_answer_cut_by_the_limit_is_valid_and_says_so(self):
        form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
        reply = self.client.chat.completions.create(model=self.model, messages=question("Invent a person."), max_tokens=22, seed=1,
                                                    temperature=2, response_format=form)
        jsonschema.validate(json.loads(reply.choices[0].message.content), PERSON)
        self.assertEqual(reply.choices[0].finish_reason, "length", reply.choices[0].message.content)

    def test_tools_stream(self):
        tools = [{"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}]
        ask = dict(model=self.model, messages=question("What is the weather in Paris?"), tools=tools, tool_choice="required",
                   temperature=0, max_tokens=80)
        whole = self.client.chat.completions.create(**ask).choices[0].message.tool_calls[0].function
        name, arguments, finish = "", "", None
        for chunk in self.client.chat.completions.create(stream=True, **ask):
            for call in chunk.choices[0].delta.tool_calls or []:
                name += call.function.name or ""
                arguments += call.function.arguments or ""
            finish = chunk.choices[0].finish_reason or finish
        self.assertEqual((name, arguments, finish), (whole.name, whole.arguments, "tool_calls"))

    def test_responses_call_functions(self):
        tools = [{"type": "function", "name": "get_weather", "parameters": WEATHER, "strict": False}]
        ask = dict(model=self.model, input=question("What is the weather in Paris? Call get_weather."), tools=tools, temperature=0,
                   max_output_tokens=80)
        reply = self.client.responses.create(tool_choice="required", **ask)
        call = reply.output[-1]
        self.assertEqual((reply.status, call.type, call.name), ("completed", "function_call", "get_weather"))
        with self.client.responses.stream(tool_choice="required", **ask) as stream:
            types = [event.type for event in stream]
            final = stream.get_final_response()
        self.assertEqual(final.output[-1].arguments, call.arguments)
        self.assertEqual((types[0], types[1], types[-1]), ("response.created", "response.in_progress", "response.completed"))
        self.assertLess(types.index("response.output_item.added"), types.index("response.function_call_arguments.delta"))
        self.assertLess(types.index("response.function_call_arguments.done"), types.index("response.output_item.done"))
        turns = [*ask["input"], call.model_dump(exclude_none=True),
                 {"type": "function_call_output", "call_id": call.call_id, "output": "sunny, 21 degrees"}]
        self.assertTrue(self.client.responses.create(**{**ask, "input": turns}).output_text)

    def test_responses_refuse_what_is_not_stored(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.responses.create(model=self.model, input="x", previous_response_id="resp_1")
        self.assertIn("previous_response_id", str(caught.exception))

    def test_errors_are_theirs(self):
        with self.assertRaises(openai.BadRequestError) as caught:
            self.client.chat.completions.create(model=self.model, messages=question("word " * 9000))
        self.assertEqual(caught.exception.code, "context_length_exceeded")
        self.assertRegex(str(caught.exception), r"maximum context length is \d+ tokens.*resulted in \d+ tokens")
        with self.assertRaises(openai.AuthenticationError):
            openai.OpenAI(base_url=served.url + "/v1", api_key="wrong", max_retries=0).models.list()
        with self.assertRaises(openai.BadRequestError):
            self.client.embeddings.create(model=self.model, input="x")
        with self.assertRaises(openai.NotFoundError):
            self.client.models.retrieve("another")
        with self.assertRaises(openai.BadRequestError):
            self.client.chat.completions.create(model=self.model, messages=question(), temperature=9)

    def test_many_at_once_answer_as_alone(self):
        async def run(count):
            client = openai.AsyncOpenAI(base_url=served.url + "/v1", api_key="secret", max_retries=0, timeout=300)

            async def one(i):
                reply = await client.chat.completions.create(model=self.model, messages=question(f"Count from {i} upwards."),
                                                             temperature=0, max_tokens=12)
                return reply.choices[0].message.content

            return await asyncio.gather(*(one(i) for i in range(count)))

        together = asyncio.run(run(MANY))
        for i in (0, MANY // 2, MANY - 1):
            reply = self.client.chat.completions.create(model=self.model, messages=question(f"Count from {i} upwards."),
                                                        temperature=0, max_tokens=12)
            self.assertEqual(reply.choices[0].message.content, together[i])

    def test_a_stream_that_is_left_stops_the_work(self):
        stream = self.client.chat.completions.create(model=self.model, messages=question("Write a long story."),
                                                     max_tokens=4000, stream=True, temperature=0)
        next(iter(stream))
        stream.close()
        for _ in range(100):
            if own("/stats")["running"] == 0:
                return
            time.sleep(0.05)
        self.fail("the sequence runs on")


class Anthropic(unittest.TestCase):
    def setUp(self):
        self.client = anthropic.Anthropic(base_url=served.url, api_key="secret", max_retries=0)
        # Newer packages have no temperature of their own.
        create, stream = self.client.messages.create, self.client.messages.stream
        self.create = lambda **ask: create(model="any", extra_body={"temperature": 0}, **ask)
        self.stream = lambda **ask: stream(model="any", extra_body={"temperature": 0}, **ask)

    def test_a_question_is_answered(self):
        reply = self.create(max_tokens=40, messages=question(), system="Be brief.")
        self.assertIn("Paris", reply.content[0].text)
        self.assertEqual((reply.stop_reason, reply.role, reply.type), ("end_turn", "assistant", "message"))
        self.assertGreater(reply.usage.output_tokens, 3)

    def test_a_stream_says_the_same(self):
        ask = dict(max_tokens=40, messages=question())
        whole = self.create(**ask)
        with self.stream(**ask) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        self.assertEqual(text, whole.content[0].text)
        self.assertEqual(final.content[0].text, text)
        self.assertEqual(final.stop_reason, whole.stop_reason)
        self.assertEqual(final.usage.output_tokens, whole.usage.output_tokens)

    def test_count_tokens_counts_what_is_used(self):
        counted = self.client.messages.count_tokens(model="any", messages=question("Why is the sky blue?"))
        used = self.create(max_tokens=1, messages=question("Why is the sky blue?")).usage
        self.assertEqual(counted.input_tokens, used.input_tokens + (used.cache_read_input_tokens or 0))

    def test_tools(self):
        tools = [{"name": "get_weather", "description": "Weather of a city", "input_schema": WEATHER}]
        ask = dict(max_tokens=80, messages=question("What is the weather in Paris? Call get_weather."), tools=tools,
                   tool_choice={"type": "tool", "name": "get_weather"})
        reply = self.create(**ask)
        self.assertEqual(reply.stop_reason, "tool_use", reply.content)
        use = reply.content[-1]
        self.assertEqual(use.name, "get_weather")
        with self.stream(**ask) as stream:
            final = stream.get_final_message()
        self.assertEqual(final.content[-1].input, use.input)
        turns = question("What is the weather in Paris?") + [
            {"role": "assistant", "content": [b.model_dump() for b in reply.content]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": "sunny, 21 degrees"}]}]
        final = self.create(max_tokens=40, messages=turns, tools=tools)
        self.assertTrue(final.content)

    def test_stop_sequences_and_limits(self):
        reply = self.create(max_tokens=40, messages=question(), stop_sequences=["Paris"])
        self.assertEqual((reply.stop_reason, reply.stop_sequence), ("stop_sequence", "Paris"))
        reply = self.create(max_tokens=2, messages=question())
        self.assertEqual(reply.stop_reason, "max_tokens")

    def test_many_at_once_answer_as_alone(self):
        def ask(i):
            return dict(model="any", max_tokens=12, messages=question(f"Count from {i} upwards."), extra_body={"temperature": 0})

        async def run(count):
            client = anthropic.AsyncAnthropic(base_url=served.url, api_key="secret", max_retries=0, timeout=300)
            replies = await asyncio.gather(*(client.messages.create(**ask(i)) for i in range(count)))
            return [reply.content[0].text for reply in replies]

        together = asyncio.run(run(MANY))
        for i in (0, MANY // 2, MANY - 1):
            self.assertEqual(self.client.messages.create(**ask(i)).content[0].text, together[i])

    def test_a_stream_that_is_left_stops_the_work(self):
        with self.stream(max_tokens=4000, messages=question("Write a long story.")) as stream:
            next(iter(stream.text_stream))
        for _ in range(100):
            if own("/stats")["running"] == 0:
                return
            time.sleep(0.05)
        self.fail("the sequence runs on")

    def test_a_prefill_is_continued(self):
        turns = question("What is the capital of France?") + [{"role": "assistant", "content": "The capital of France is"}]
        reply = self.create(max_tokens=10, messages=turns)
        self.assertIn("Paris", reply.content[0].text)

    def test_errors_are_theirs(self):
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(max_tokens=10, messages=question("word " * 9000))
        self.assertRegex(str(caught.exception), r"prompt is too long: \d+ tokens > \d+ maximum")
        with self.assertRaises(anthropic.AuthenticationError):
            anthropic.Anthropic(base_url=served.url, api_key="wrong", max_retries=0).messages.create(
                model="any", max_tokens=1, messages=question())
        with self.assertRaises(anthropic.BadRequestError):
            self.create(max_tokens=10, messages=[])
        with self.assertRaises(anthropic.BadRequestError) as caught:
            self.create(max_tokens=10, messages=question(), thinking={"type": "enabled", "budget_tokens": 10})
        self.assertEqual(caught.exception.body["error"]["type"], "invalid_request_error")


class Thinking(unittest.TestCase):
    """A V4.1 model of random weights: what it says means nothing, but it thinks."""

    def test_openai_gets_reasoning_content_and_its_limit(self):
        client = openai.OpenAI(base_url=thinks.url + "/v1", api_key="none", max_retries=0)
        ask = dict(model="any", messages=question(), temperature=0, max_tokens=40, reasoning_effort="low",
                   extra_body={"max_reasoning_tokens": 9})
        reply = client.chat.completions.create(**ask)
        self.assertTrue(reply.choices[0].message.reasoning_content and reply.choices[0].message.content)
        self.assertLessEqual(reply.usage.completion_tokens_details.reasoning_tokens, 10)
        deltas = [chunk.choices[0].delta for chunk in client.chat.completions.create(stream=True, **ask)]
        self.assertEqual("".join(getattr(d, "reasoning_content", None) or "" for d in deltas), reply.choices[0].message.reasoning_content)
        self.assertEqual("".join(d.content or "" for d in deltas), reply.choices[0].message.content)
        off = client.chat.completions.create(model="any", messages=question(), max_tokens=5, extra_body={"thinking": {"type": "disabled"}})
        self.assertIsNone(getattr(off.choices[0].message, "reasoning_content", None))
        with self.assertRaises(openai.BadRequestError):
            client.chat.completions.create(model="any", messages=question(), extra_body={"reasoning_effort": 101})

    def test_responses_have_a_reasoning_item(self):
        client = openai.OpenAI(base_url=thinks.url + "/v1", api_key="none", max_retries=0)
        with client.responses.stream(model="any", input="Hello", temperature=0, max_output_tokens=40,
                                     extra_body={"max_reasoning_tokens": 9}) as stream:
            events = list(stream)
        final = events[-1].response
        self.assertEqual([item.type for item in final.output], ["reasoning", "message"])
        self.assertIn("response.reasoning_text.delta", [event.type for event in events])
        self.assertEqual(events[-1].type, "response.incomplete")
        self.assertEqual((final.status, final.incomplete_details.reason), ("incomplete", "max_output_tokens"))

    def test_anthropic_gets_thinking_blocks_within_the_budget(self):
        client = anthropic.Anthropic(base_url=thinks.url, api_key="none", max_retries=0)
        ask = dict(model="any", max_tokens=40, messages=question(), thinking={"type": "enabled", "budget_tokens": 9},
                   extra_body={"temperature": 0})
        reply = client.messages.create(**ask)
        self.assertEqual([block.type for block in reply.content], ["thinking", "text"])
        with client.messages.stream(**ask) as stream:
            events = [event.type for event in stream]
            final = stream.get_final_message()
        self.assertEqual([block.model_dump() for block in final.content], [block.model_dump() for block in reply.content])
        self.assertEqual((events[0], events[-1]), ("message_start", "message_stop"))
        turns = question() + [{"role": "assistant", "content": [b.model_dump() for b in reply.content]}, *question("And now?")]
        self.assertTrue(client.messages.create(**{**ask, "messages": turns}).content)


def main():
    global served, thinks
    served = ServedProgram(sys.argv[1], "--api-key", "secret", "--max-waiting", "300")
    thinks = ServedProgram(sys.argv[1], "--threads", "1", model=TINY)
    with served, thinks:
        result = unittest.main(argv=[sys.argv[0]], exit=False, verbosity=1, warnings="ignore").result
        ends = [server.stop() for server in (served, thinks)]
    for server, (code, seconds) in zip((served, thinks), ends):
        if code != 0 or seconds > 35:
            print(f"a server ended with {code} after {seconds:.1f} s", file=sys.stderr)
            sys.exit(1)
    sys.exit(0 if result.wasSuccessful() else 1)


if __name__ == "__main__":
    if not default_model_is_there():
        print("skipped: the default model has not been fetched (./dev run fetches it)", file=sys.stderr)
        sys.exit(SKIP)
    main()
