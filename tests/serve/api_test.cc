// The APIs' words: a stream says, piece by piece, what the whole answer says.
#include "serve/api.h"

#include <set>

#include "serve/scripted.h"

namespace seekline::serve {
namespace {

struct Event {
  std::string name;
  ChatJson data;
};

std::vector<Event> parse_sse(const std::string& text) {
  std::vector<Event> events;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\n\n", at);
    EXPECT_NE(end, std::string::npos);
    Event event;
    for (std::size_t line = at; line < end;) {
      const std::size_t line_end = std::min(text.find('\n', line), end);
      const std::string one = text.substr(line, line_end - line);
      if (one.rfind("event: ", 0) == 0) event.name = one.substr(7);
      if (one.rfind("data: ", 0) == 0 && one != "data: [DONE]") event.data = ChatJson::parse(one.substr(6));
      line = line_end + 1;
    }
    events.push_back(std::move(event));
    at = end + 2;
  }
  return events;
}

struct Told {
  std::vector<Event> events;
  ChatJson body;
};

using MakeCall = ApiCall (*)(const Service&, const ChatJson&);

// The script's answer through one API, streamed and whole.
Told tell(MakeCall make, ChatJson request, const Script& script) {
  Told told;
  const AnswerContext context = tiny_context();
  for (const bool stream : {true, false}) {
    request["stream"] = stream;
    ApiCall call = make(tiny_service(), request);
    EXPECT_EQ(call.streams, stream);
    const auto generation = std::make_shared<Generation>(1);
    play(context, call.spec, script, generation);
    std::string out;
    while (auto event = generation->next(Generation::Clock::now()))
      if (stream) call.renderer->render(*event, generation->outcomes(), out);
    if (stream) {
      call.renderer->finish(generation->outcomes(), out);
      told.events = parse_sse(out);
    } else {
      told.body = call.renderer->body(generation->outcomes());
    }
  }
  return told;
}

ApiCall chat(const Service& service, const ChatJson& body) { return openai_chat_call(service, body); }
ApiCall messages(const Service& service, const ChatJson& body) {
  return anthropic_messages_call(service, body, "req_1");
}
ApiCall responses(const Service& service, const ChatJson& body) {
  return openai_responses_call(service, body);
}

ChatJson tool(const char* name) {
  return {{"type", "function"}, {"function", {{"name", name}, {"parameters", {{"type", "object"}}}}}};
}

ChatJson chat_request() {
  return {{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"tools", {tool("find"), tool("open")}}};
}

ChatJson message_request() {
  return {{"max_tokens", 2000},
          {"thinking", {{"type", "enabled"}, {"budget_tokens", 1500}}},
          {"messages", {{{"role", "user"}, {"content", "hi"}}}},
          {"tools",
           {{{"name", "find"}, {"input_schema", {{"type", "object"}}}},
            {{"name", "open"}, {"input_schema", {{"type", "object"}}}}}}};
}

ChatJson response_request() {
  return {{"input", "hi"},
          {"tools",
           {{{"type", "function"}, {"name", "find"}, {"parameters", {{"type", "object"}}}},
            {{"type", "function"}, {"name", "open"}, {"parameters", {{"type", "object"}}}}}}};
}

TEST(OpenAiChat, ChunksAddUpToTheWholeMessage) {
  const Told told = tell(chat, chat_request(), {kTwoCalls});
  std::string reasoning, content, finish;
  std::vector<ChatJson> calls;
  for (const Event& event : told.events) {
    if (!event.data.contains("choices") || event.data["choices"].empty()) continue;
    EXPECT_EQ(event.data["object"], "chat.completion.chunk");
    const ChatJson& choice = event.data["choices"][0];
    const ChatJson& delta = choice["delta"];
    if (delta.contains("reasoning_content")) reasoning += delta["reasoning_content"].get<std::string>();
    if (delta.contains("content")) content += delta["content"].get<std::string>();
    for (const ChatJson& call : delta.value("tool_calls", ChatJson::array())) {
      if (call.contains("id")) {
        EXPECT_EQ(call["index"], calls.size());
        calls.push_back(call);
      } else {
        ChatJson& arguments = calls.at(call["index"].get<std::size_t>())["function"]["arguments"];
        arguments = arguments.get<std::string>() + call["function"]["arguments"].get<std::string>();
      }
    }
    if (!choice["finish_reason"].is_null()) finish = choice["finish_reason"];
  }
  const ChatJson& message = told.body["choices"][0]["message"];
  EXPECT_EQ(reasoning, "I think.");
  EXPECT_EQ(message["reasoning_content"], reasoning);
  EXPECT_EQ(message["content"], content);
  ASSERT_EQ(calls.size(), 2U);
  ASSERT_EQ(message["tool_calls"].size(), 2U);
  std::set<std::string> ids;
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(calls[i]["function"], message["tool_calls"][i]["function"]);
    ids.insert(calls[i]["id"]);
  }
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(finish, "tool_calls");
  EXPECT_EQ(told.body["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(
      told.body["usage"]["prompt_tokens"].get<int>() + told.body["usage"]["completion_tokens"].get<int>(),
      told.body["usage"]["total_tokens"]);
}

TEST(OpenAiChat, ReuseIsToldBeforeTheAnswerBeginsAndGrowthWithIt) {
  const AnswerContext context = tiny_context();
  ChatJson request = chat_request();
  request["stream"] = true;
  ApiCall call = openai_chat_call(tiny_service(), request);
  const auto generation = std::make_shared<Generation>(1);
  Answer answer(context, call.spec, 0, 100, generation);
  ReuseReport reuse;
  reuse.prompt_tokens = 50;
  reuse.reused_tokens = 30;
  const std::vector<std::int64_t> bytes(tiny_service().model().plan().stores.size(), 7);
  answer.on_start(reuse);
  answer.on_cache(bytes);
  for (const TokenId token : context.tokenizer->encode("one two three", false))
    answer.on_token({token, 0, {}});
  answer.on_end({});
  std::string out;
  while (auto event = generation->next(Generation::Clock::now()))
    call.renderer->render(*event, generation->outcomes(), out);
  const std::vector<Event> events = parse_sse(out);
  EXPECT_EQ(events.at(0).data["seekline"]["prompt_tokens"]["reused"], 30);
  EXPECT_EQ(events.at(0).data["seekline"]["prompt_tokens"]["computed"], 20);
  EXPECT_EQ(events.at(1).data["seekline"]["cache"]["bytes"], 7 * bytes.size());
  EXPECT_FALSE(events.at(2).data.contains("seekline"));
}

TEST(OpenAiChat, UsageComesAtTheEndOfAStreamThatAsksForIt) {
  ChatJson request = chat_request();
  EXPECT_FALSE(tell(chat, request, {"a</think>b"}).events.at(2).data.contains("usage"));
  request["stream_options"] = {{"include_usage", true}};
  const Told told = tell(chat, request, {"a</think>b"});
  const ChatJson& last = told.events.at(told.events.size() - 2).data;
  EXPECT_TRUE(last["choices"].empty());
  EXPECT_EQ(last["usage"]["completion_tokens_details"]["reasoning_tokens"], 2);
}

TEST(OpenAiChat, LogprobsCoverTheContentAndNothingElse) {
  ChatJson request = chat_request();
  request["logprobs"] = true;
  request["top_logprobs"] = 1;
  const Told told = tell(chat, request, {"thought</think>the answer"});
  std::string from_body, from_stream;
  for (const ChatJson& token : told.body["choices"][0]["logprobs"]["content"]) {
    for (const ChatJson& byte : token["bytes"]) from_body += static_cast<char>(byte.get<int>());
    EXPECT_EQ(token["top_logprobs"].size(), 1U);
    EXPECT_FLOAT_EQ(token["logprob"].get<float>(), -0.5f);
  }
  for (const Event& event : told.events)
    if (event.data.contains("choices") && !event.data["choices"].empty() &&
        !event.data["choices"][0]["logprobs"].is_null())
      for (const ChatJson& token : event.data["choices"][0]["logprobs"]["content"])
        from_stream += token["token"].get<std::string>();
  EXPECT_EQ(from_body, "the answer");
  EXPECT_EQ(from_stream, "the answer");
}

TEST(AnthropicMessages, BlocksAddUpToTheWholeMessage) {
  const Told told = tell(messages, message_request(), {kTwoCalls});
  EXPECT_EQ(told.events.front().name, "message_start");
  EXPECT_EQ(told.events.back().name, "message_stop");
  std::vector<ChatJson> blocks;
  std::vector<std::string> inputs;
  bool open = false;
  std::string stop_reason;
  for (const Event& event : told.events) {
    EXPECT_EQ(event.data["type"], event.name);
    if (event.name == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(event.data["index"], blocks.size());
      open = true;
      blocks.push_back(event.data["content_block"]);
      inputs.emplace_back();
    } else if (event.name == "content_block_delta") {
      EXPECT_TRUE(open);
      const ChatJson& delta = event.data["delta"];
      const auto add = [&](const char* key) {
        blocks.back()[key] = blocks.back()[key].get<std::string>() + delta[key].get<std::string>();
      };
      if (delta["type"] == "text_delta") add("text");
      if (delta["type"] == "thinking_delta") add("thinking");
      if (delta["type"] == "signature_delta") add("signature");
      if (delta["type"] == "input_json_delta") inputs.back() += delta["partial_json"].get<std::string>();
    } else if (event.name == "content_block_stop") {
      EXPECT_TRUE(open);
      open = false;
    } else if (event.name == "message_delta") {
      stop_reason = event.data["delta"]["stop_reason"];
    }
  }
  ASSERT_EQ(blocks.size(), told.body["content"].size());
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    ChatJson whole = told.body["content"][i];
    if (blocks[i]["type"] == "tool_use") {
      blocks[i]["input"] = ChatJson::parse(inputs[i]);
      blocks[i]["id"] = whole["id"] = "";
    }
    EXPECT_EQ(blocks[i], whole) << i;
  }
  EXPECT_EQ(stop_reason, "tool_use");
  EXPECT_EQ(told.body["stop_reason"], "tool_use");
}

TEST(AnthropicMessages, StopSequencesAndLimitsHaveTheirReasons) {
  ChatJson request = message_request();
  request["stop_sequences"] = {"END"};
  const Told stopped = tell(messages, request, {"x</think>here END"});
  EXPECT_EQ(stopped.body["stop_reason"], "stop_sequence");
  EXPECT_EQ(stopped.body["stop_sequence"], "END");
  EXPECT_EQ(tell(messages, request, {"x</think>cut", false}).body["stop_reason"], "max_tokens");
  EXPECT_EQ(tell(messages, request, {"x</think>done"}).body["stop_reason"], "end_turn");
}

TEST(OpenAiResponses, ItemsAddUpToTheWholeResponse) {
  const Told told = tell(responses, response_request(), {kTwoCalls});
  EXPECT_EQ(told.events.front().name, "response.created");
  EXPECT_EQ(told.events.back().name, "response.completed");
  std::string text, reasoning;
  std::vector<ChatJson> done;
  for (std::size_t i = 0; i < told.events.size(); ++i) {
    const ChatJson& data = told.events[i].data;
    EXPECT_EQ(data["sequence_number"], i);
    EXPECT_EQ(data["type"], told.events[i].name);
    if (data["type"] == "response.output_text.delta") text += data["delta"].get<std::string>();
    if (data["type"] == "response.reasoning_text.delta") reasoning += data["delta"].get<std::string>();
    if (data["type"] == "response.output_item.done") done.push_back(data["item"]);
  }
  EXPECT_EQ(text, "Let me look.");
  EXPECT_EQ(reasoning, "I think.");
  const ChatJson& last = told.events.back().data["response"];
  EXPECT_EQ(last["output"], ChatJson(done));
  ASSERT_EQ(last["output"].size(), told.body["output"].size());
  for (std::size_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i]["type"], told.body["output"][i]["type"]);
    if (done[i].contains("arguments")) {
      EXPECT_EQ(done[i]["arguments"], told.body["output"][i]["arguments"]);
    }
  }
  EXPECT_EQ(told.body["status"], "completed");
  EXPECT_EQ(tell(responses, response_request(), {"x</think>cut", false}).body["status"], "incomplete");
}

TEST(Apis, AMalformedCallIsNoCallInAnyOfThem) {
  EXPECT_FALSE(
      tell(chat, chat_request(), {kBrokenCall}).body["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(tell(messages, message_request(), {kBrokenCall}).body["stop_reason"], "end_turn");
  const Told told = tell(responses, response_request(), {kBrokenCall});
  for (const ChatJson& item : told.body["output"]) EXPECT_NE(item["type"], "function_call");
}

// The prompt of a request in one API as text.
std::string prompt_of(MakeCall make, const ChatJson& request) {
  return tiny_service().tokenizer().decode(make(tiny_service(), request).spec.prompts.at(0));
}

TEST(Apis, TheSameConversationIsTheSamePromptInAllOfThem) {
  const ChatJson openai = ChatJson::parse(R"({"messages": [
    {"role": "system", "content": "Be brief."}, {"role": "user", "content": "find a"},
    {"role": "assistant", "content": "Looking.", "reasoning_content": "hm",
     "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{\"what\": \"a\"}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "found"}],
    "tools": [{"type": "function", "function": {"name": "find", "description": "d", "parameters": {"type": "object"}}}]})");
  const ChatJson anthropic = ChatJson::parse(R"({"max_tokens": 100, "system": "Be brief.",
    "thinking": {"type": "adaptive"}, "messages": [
    {"role": "user", "content": "find a"},
    {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
     {"type": "text", "text": "Looking."}, {"type": "tool_use", "id": "c1", "name": "find", "input": {"what": "a"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "found"}]}]}],
    "tools": [{"name": "find", "description": "d", "input_schema": {"type": "object"}}]})");
  const ChatJson responses_body = ChatJson::parse(R"({"instructions": "Be brief.", "input": [
    {"role": "user", "content": [{"type": "input_text", "text": "find a"}]},
    {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Looking."}]},
    {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{\"what\": \"a\"}"},
    {"type": "function_call_output", "call_id": "c1", "output": "found"}],
    "tools": [{"type": "function", "name": "find", "description": "d", "parameters": {"type": "object"}}]})");
  const std::string prompt = prompt_of(chat, openai);
  EXPECT_NE(prompt.find("Looking."), std::string::npos);
  EXPECT_EQ(prompt_of(messages, anthropic), prompt);
  EXPECT_EQ(prompt_of(responses, responses_body), prompt);
  EXPECT_EQ(anthropic_count_tokens(tiny_service(), anthropic)["input_tokens"],
            chat(tiny_service(), openai).spec.prompts[0].size());
}

TEST(Apis, WhatCannotBeHonouredIsA400ThatNamesIt) {
  const auto refusal = [](MakeCall make, ChatJson request, const ChatJson& change) -> std::string {
    for (const auto& [key, value] : change.items()) request[key] = value;
    try {
      make(tiny_service(), request);
    } catch (const std::exception& error) {
      const ApiError api = api_error_of(error);
      EXPECT_EQ(api.status(), 400) << api.what();
      return api.what();
    }
    return "accepted";
  };
  const std::vector<std::pair<ChatJson, std::string>> chats{
      {{{"temperature", 3}}, "temperature"},
      {{{"temperature", "hot"}}, "temperature"},
      {{{"top_p", -1}}, "top_p"},
      {{{"n", 0}}, "n is 0"},
      {{{"n", 1.5}}, "n is 1.5"},
      {{{"max_tokens", 0}}, "max_tokens"},
      {{{"top_logprobs", 3}}, "top_logprobs"},
      {{{"stream", 1}}, "stream"},
      {{{"stop", ChatJson::array({1})}}, "stop[0]"},
      {{{"logit_bias", {{"x", 1}}}}, "logit_bias"},
      {{{"functions", ChatJson::array({1})}}, "functions"},
      {{{"reasoning_effort", 101}}, "reasoning_effort"},
      {{{"reasoning_effort", "huge"}}, "effort"},
      {{{"messages", ChatJson::array()}}, "messages"},
      {{{"messages",
         {{{"role", "user"},
           {"content", {{{"type", "image_url"}, {"image_url", {{"url", "http://x/y.png"}}}}}}}}}},
       "images"},
      {{{"response_format",
         {{"type", "json_schema"}, {"json_schema", {{"schema", {{"type", "string"}, {"pattern", "a"}}}}}}},
        {"tools", nullptr}},
       "pattern"},
      {{{"response_format", {{"type", "xml"}}}}, "xml"}};
  for (const auto& [change, words] : chats)
    EXPECT_NE(refusal(chat, chat_request(), change).find(words), std::string::npos)
        << change << ": " << refusal(chat, chat_request(), change);
  EXPECT_NE(refusal(messages, message_request(), {{"max_tokens", nullptr}}).find("max_tokens"),
            std::string::npos);
  EXPECT_NE(
      refusal(messages, message_request(), {{"thinking", {{"type", "enabled"}, {"budget_tokens", 2000}}}})
          .find("budget"),
      std::string::npos);
  EXPECT_NE(refusal(responses, response_request(), {{"previous_response_id", "resp_1"}})
                .find("previous_response_id"),
            std::string::npos);
  EXPECT_NE(
      refusal(responses, response_request(), {{"tools", {{{"type", "web_search"}}}}}).find("web_search"),
      std::string::npos);
}

}  // namespace
}  // namespace seekline::serve
