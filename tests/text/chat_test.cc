// What the goldens do not say about the chat formats: templates, refusals, JSON as Python writes it, control
// tokens.
#include "text/chat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "seekline/error.h"
#include "text/chat_golden.h"

namespace seekline {
namespace {

using golden::api_body;
using golden::chat_golden;
using ::testing::HasSubstr;

ChatMessage says(ChatRole role, const std::string& text) {
  ChatMessage message;
  message.role = role;
  message.content.push_back({ChatPart::Kind::kText, text});
  return message;
}

ChatRequest asks(std::vector<ChatMessage> messages) {
  ChatRequest request;
  request.messages = std::move(messages);
  return request;
}

std::string refusal(const std::string& format, const ChatRequest& request) {
  try {
    return "accepted: " + chat_format(format).render(request).text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    return error.what();
  }
}

TEST(Chat, TemplatesOfV3V2AndSmolLm2AreRenderedToTheByte) {
  const ChatJson cases = chat_golden("chat-templates/cases.json");
  ASSERT_EQ(cases.size(), 42u);
  for (const ChatJson& item : cases) {
    const ChatPrompt prompt =
        chat_format(item["format"].get<std::string>()).render(chat_request_from_json(api_body(item)));
    EXPECT_EQ(prompt.text(), item["expected_text"]) << item["format"] << " " << item["note"];
    ChatJson ranges = ChatJson::array();
    for (const auto& [begin, end] : prompt.control_ranges()) ranges.push_back({begin, end});
    EXPECT_EQ(ranges, item["special_bytes"]) << item["format"] << " " << item["note"];
    EXPECT_EQ(prompt.reply_start, ReplyStart::kContent);
  }
}

TEST(Chat, SegmentsAreControlTokensOrPlainTextAndNeverTwoPlainOnesInARow) {
  for (const ChatJson& item : chat_golden("chat-v41/cases.json")) {
    const ChatPrompt prompt = chat_format("deepseek-v4.1").render(golden::encoder_request(item));
    bool plain_before = false;
    for (const ChatSegment& segment : prompt.segments) {
      EXPECT_FALSE(segment.text.empty());
      EXPECT_FALSE(plain_before && !segment.is_control) << item["note"];
      plain_before = !segment.is_control;
    }
  }
}

TEST(Chat, TextOfAnyRoleNeverBecomesAControlToken) {
  std::string every_token;
  const Tokenizer& tokenizer = golden::v41_tokenizer();
  for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.size()); ++id)
    if (tokenizer.is_added(id)) every_token += tokenizer.token_bytes(id);
  ASSERT_GT(every_token.size(), 10000u);

  const auto conversation = [](const std::string& text) {
    ChatRequest request =
        asks({says(ChatRole::kSystem, text), says(ChatRole::kReminder, text), says(ChatRole::kUser, text),
              says(ChatRole::kAssistant, text), says(ChatRole::kTool, text)});
    request.messages[3].reasoning = text;
    request.messages[3].tool_calls.push_back({"c", text, python_json(ChatJson{{text, text}})});
    request.messages[4].tool_call_id = "c";
    request.tools.push_back({"f", text, ChatJson{{"type", "object"}, {"description", text}}, false});
    request.response_format = {ChatResponseFormat::Kind::kJsonSchema, ChatJson{{"description", text}}};
    return request;
  };
  for (const std::string format : {"deepseek-v4.1", "deepseek-v4"}) {
    const auto added_ids = [&](const std::string& text) {
      const ChatPrompt prompt = chat_format(format).render(conversation(text));
      std::vector<TokenId> added;
      for (const TokenId id : encode_prompt(prompt, tokenizer))
        if (tokenizer.is_added(id)) added.push_back(id);
      return added;
    };
    EXPECT_EQ(added_ids(every_token), added_ids("harmless")) << format;
  }
}

TEST(Chat, ATokenizerWithoutAControlTokenIsNamed) {
  const ChatPrompt prompt = chat_format("chatml").render(asks({says(ChatRole::kUser, "hi")}));
  try {
    encode_prompt(prompt, golden::tiny_tokenizer());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), HasSubstr("<|im_start|>"));
  }
}

TEST(Chat, TheFormatFollowsTheModelTypeAndItsTokens) {
  const Tokenizer& tiny = golden::tiny_tokenizer();
  const auto name = [&](std::string_view model_type) {
    return std::string(chat_format_of(model_type, tiny)->name());
  };
  EXPECT_EQ(name("deepseek_v41"), "deepseek-v4.1");
  EXPECT_EQ(name("deepseek_v4"), "deepseek-v4");
  EXPECT_EQ(name("deepseek_v32"), "deepseek-v3.2");
  EXPECT_EQ(name("deepseek_v3"), "deepseek-v3");
  EXPECT_EQ(name("deepseek_v2"), "deepseek-v3") << "V2.5: V2's architecture with V3's turn tokens";
  EXPECT_EQ(chat_format_of("llama", tiny), nullptr);
  for (const std::string_view known : chat_format_names()) EXPECT_EQ(chat_format(known).name(), known);
  EXPECT_THROW(chat_format("gpt"), Error);
}

TEST(Chat, WhatAFormatCannotSayIsRefusedByName) {
  const ChatRequest hello = asks({says(ChatRole::kUser, "hi")});
  ChatRequest with_tools = hello;
  with_tools.tools.push_back({"f", "", ChatJson::object(), false});
  EXPECT_THAT(refusal("deepseek-v3", with_tools), HasSubstr("deepseek-v3 has no place for tools"));
  EXPECT_THAT(refusal("deepseek-v2", with_tools), HasSubstr("deepseek-v2 has no place for tools"));

  ChatRequest thinking = hello;
  thinking.thinking = true;
  for (const std::string format : {"deepseek-v3", "deepseek-v2", "chatml"})
    EXPECT_THAT(refusal(format, thinking), HasSubstr("has no thinking mode"));

  ChatRequest number = hello;
  number.effort = ChatEffort{"", 40};
  for (const std::string format : {"deepseek-v4", "deepseek-v3.2", "deepseek-v3", "chatml"})
    EXPECT_THAT(refusal(format, number), HasSubstr("effort"));
  EXPECT_THAT(chat_format("deepseek-v4.1").render(number).text(), HasSubstr("Reasoning Effort: 40 "));

  for (const std::string format : {"deepseek-v3.2", "deepseek-v3", "deepseek-v2", "chatml"}) {
    ChatRequest image = hello;
    image.messages[0].content.push_back({ChatPart::Kind::kImage, "https://e.com/a.png"});
    EXPECT_THAT(refusal(format, image), HasSubstr("does not take images"));
    EXPECT_THAT(refusal(format, asks({says(ChatRole::kReminder, "today"), hello.messages[0]})),
                HasSubstr("latest_reminder"));
  }
  EXPECT_THAT(refusal("deepseek-v4.1", asks({says(ChatRole::kDeveloper, "d")})), HasSubstr("developer"));

  ChatRequest task = hello;
  task.messages[0].task = "dance";
  EXPECT_THAT(refusal("deepseek-v4", task), HasSubstr("no task \"dance\""));

  with_tools.tool_choice = {ChatToolChoice::Kind::kRequired, ""};
  for (const std::string format : {"deepseek-v4.1", "deepseek-v4", "deepseek-v3.2"})
    EXPECT_THAT(refusal(format, with_tools), HasSubstr("while thinking is on"));
}

TEST(Chat, V32TakesToolsAndSchemasOfTheRequestInItsFirstSystemMessage) {
  const ChatFormat& v32 = chat_format("deepseek-v3.2");
  ChatRequest request = asks({says(ChatRole::kSystem, "S"), says(ChatRole::kUser, "q")});
  request.tools.push_back({"f", "d", ChatJson{{"type", "object"}}, false});
  const std::string with_system = v32.render(request).text();
  EXPECT_THAT(with_system, HasSubstr("sentence｜>S\n\n## Tools\n"));
  EXPECT_THAT(with_system, HasSubstr("<functions>\n{\"name\": \"f\", \"description\": \"d\", \"parameters\": "
                                     "{\"type\": \"object\"}}\n</functions>\n<｜User｜>q"));
  request.messages.erase(request.messages.begin());
  EXPECT_THAT(v32.render(request).text(), HasSubstr("sentence｜>\n\n## Tools\n"));

  request.thinking = false;
  request.tool_choice = {ChatToolChoice::Kind::kRequired, ""};
  const ChatPrompt demanded = v32.render(request);
  EXPECT_THAT(demanded.text(), ::testing::EndsWith("</think>\n\n<｜DSML｜function_calls>\n"));
  EXPECT_EQ(demanded.reply_start, ReplyStart::kCalls);
}

TEST(Chat, V32RepliesAfterAFinishedAssistantMessageAndContinuesAnUnfinishedOne) {
  const ChatFormat& v32 = chat_format("deepseek-v3.2");
  ChatRequest request = asks({says(ChatRole::kUser, "q"), says(ChatRole::kAssistant, "a")});
  request.thinking = false;
  EXPECT_EQ(v32.render(request).text(),
            "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>a<｜end▁of▁sentence｜><｜Assistant｜></"
            "think>");
  request.messages.back().prefix = true;
  EXPECT_EQ(v32.render(request).text(), "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜></think>a");
  EXPECT_EQ(v32.render(request).reply_start, ReplyStart::kContentContinued);
  request.thinking = true;
  request.messages.back().content.clear();
  request.messages.back().reasoning = "r";
  EXPECT_EQ(v32.render(request).text(), "<｜begin▁of▁sentence｜><｜User｜>q<｜Assistant｜><think>r");
  EXPECT_EQ(v32.render(request).reply_start, ReplyStart::kReasoningContinued);
}

TEST(Chat, APrefixIsContinuedWithoutAnEndInEveryFormat) {
  ChatRequest request = asks({says(ChatRole::kUser, "q"), says(ChatRole::kAssistant, "The answer")});
  request.messages.back().prefix = true;
  for (const std::string_view name : chat_format_names()) {
    const ChatPrompt prompt = chat_format(name).render(request);
    EXPECT_THAT(prompt.text(), ::testing::EndsWith("The answer")) << name;
    EXPECT_EQ(prompt.reply_start, ReplyStart::kContentContinued) << name;
  }
}

TEST(Chat, APrefixMayStandBesideTools) {
  ChatRequest request = asks({says(ChatRole::kUser, "q"), says(ChatRole::kAssistant, "Let me")});
  request.messages.back().prefix = true;
  request.messages.back().reasoning = "r";
  request.tools.push_back({"f", "", ChatJson::object(), false});
  EXPECT_THAT(chat_format("deepseek-v4.1").render(request).text(),
              ::testing::EndsWith("<think>r</think>Let me"));
}

TEST(Chat, ChatMlListsToolsAndWritesCallsAsJson) {
  ChatRequest request =
      asks({says(ChatRole::kSystem, "S"), says(ChatRole::kUser, "q"), says(ChatRole::kAssistant, "Wait."),
            says(ChatRole::kTool, "two"), says(ChatRole::kTool, "one")});
  request.messages[2].tool_calls = {{"a", "f", "{\"x\":1.0}"}, {"b", "g", "not json"}};
  request.messages[3].tool_call_id = "b";
  request.messages[4].tool_call_id = "a";
  request.tools.push_back({"f", "d", ChatJson{{"type", "object"}}, false});
  const ChatPrompt prompt = chat_format("chatml").render(request);
  EXPECT_TRUE(prompt.calls_allowed);
  EXPECT_THAT(prompt.text(),
              HasSubstr("<tools>\n{\"name\": \"f\", \"description\": \"d\", \"parameters\": {\"type\": "
                        "\"object\"}}\n</tools>\n"));
  EXPECT_THAT(prompt.text(),
              ::testing::EndsWith(
                  "<|im_start|>assistant\nWait.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": "
                  "1.0}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": \"not "
                  "json\"}\n</tool_call><|im_end|>\n<|im_start|>user\n<tool_response>\none\n"
                  "</tool_response>\n<tool_response>\ntwo\n</tool_response><|im_end|>\n"
                  "<|im_start|>assistant\n"));
  request.tool_choice = {ChatToolChoice::Kind::kNamed, "f"};
  EXPECT_EQ(chat_format("chatml").render(request).reply_start, ReplyStart::kCalls);
}

TEST(ChatJson, FloatsAreWrittenAsPythonWritesThem) {
  const std::vector<std::pair<double, std::string>> cases{
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {-1.5, "-1.5"},
      {0.1, "0.1"},
      {100.0, "100.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e16, "1.5e+16"},
      {1e22, "1e+22"},
      {1e100, "1e+100"},
      {1e-4, "0.0001"},
      {1e-5, "1e-05"},
      {1.5e-7, "1.5e-07"},
      {5e-324, "5e-324"},
      {0.00012, "0.00012"},
      {123456789.12345679, "123456789.12345679"},
      {9007199254740993.0, "9007199254740992.0"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {-12.5, "-12.5"},
      {3e-310, "3e-310"},
      {std::numeric_limits<double>::infinity(), "Infinity"}};
  for (const auto& [value, text] : cases) EXPECT_EQ(python_float(value), text);
}

TEST(ChatJson, ObjectsKeepTheirOrderAndEverythingOutsideAsciiStaysItself) {
  const auto value = parse_json(
      "{\"b\":[1,2.50,{\"é\":null}],\"a\":\"\\u0001\\u007f\\u2028\\/\\ud83d\\ude00\\\"\",\"b\":true}");
  ASSERT_TRUE(value);
  EXPECT_EQ(python_json(*value), "{\"b\": true, \"a\": \"\\u0001\x7f\u2028/😀\\\"\"}");
}

TEST(ChatJson, WhatIsNoJsonOrTooDeepIsNotParsed) {
  for (const char* text :
       {"", "{", "{\"a\":1,}", "\xEF\xBB\xBF{}", "{\"a\":01}", "NaN", "{\"a\":\"\\ud800\"}", "1e400", "{}x"})
    EXPECT_FALSE(parse_json(text)) << text;
  EXPECT_TRUE(parse_json(std::string(127, '[') + std::string(127, ']')));
  EXPECT_FALSE(parse_json(std::string(128, '[') + std::string(128, ']')));
  EXPECT_TRUE(parse_json("\"" + std::string(500, '[') + "\""));
}

TEST(ChatJson, ADeeplyNestedRequestIsRefusedRatherThanFollowed) {
  ChatJson deep = ChatJson::object();
  for (int i = 0; i < 5000; ++i) {
    ChatJson outer = ChatJson::object();
    outer["a"] = std::move(deep);
    deep = std::move(outer);
  }
  ChatJson body = ChatJson::parse(R"({"messages": [{"role": "user", "content": "q"}]})");
  EXPECT_NO_THROW(chat_request_from_json(body));
  body["metadata"] = std::move(deep);
  EXPECT_THROW(chat_request_from_json(body), Error);
}

TEST(ChatJson, AStrictSchemaRequiresEveryPropertyAndAllowsNoOther) {
  const auto strict = [](const char* text) {
    return python_json(strict_schema(ChatJson::parse(text), "tools[0]"));
  };
  EXPECT_EQ(strict(R"({"type": "object"})"),
            R"({"type": "object", "properties": {}, "additionalProperties": false, "required": []})");
  EXPECT_EQ(
      strict(
          R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties":
                       {"b": {"$ref": "#/$defs/k"}}}}}, "$defs": {"k": {"anyOf": [{"type": "object"}, {"type": "null"}]}}})"),
      R"({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object", "properties": )"
      R"({"b": {"$ref": "#/$defs/k"}}, "additionalProperties": false, "required": ["b"]}}}, "$defs": {"k": )"
      R"({"anyOf": [{"type": "object", "properties": {}, "additionalProperties": false, "required": []}, )"
      R"({"type": "null"}]}}, "additionalProperties": false, "required": ["a"]})");
  EXPECT_THROW(strict(R"({"type": "object", "properties": {"a": {}, "b": {}}, "required": ["a"]})"), Error);
  EXPECT_THROW(strict(R"({"type": "object", "additionalProperties": true})"), Error);
  EXPECT_THROW(strict(R"({"type": "object", "properties": 5})"), Error);
}

}  // namespace
}  // namespace seekline
