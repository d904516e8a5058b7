// Every golden prompt, refusal and disputed case of the chat encodings.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "seekline/error.h"
#include "text/chat_golden.h"

namespace seekline {
namespace {

using golden::api_body;
using golden::chat_golden;
using golden::encoder_request;

bool refers_to(const ChatJson& item, std::string_view reference) {
  if (!item.contains("references")) return false;
  const ChatJson& references = item["references"];
  return std::find(references.begin(), references.end(), reference) != references.end();
}

const ChatFormat& format_of(const std::string& folder, const ChatJson& item) {
  if (folder == "chat-v41") return chat_format("deepseek-v4.1");
  if (folder == "chat-v32") return chat_format("deepseek-v3.2");
  // The preview checkpoint's encoder writes no effort text unless told "max".
  const bool preview = item.value("variant", "") == "preview" || refers_to(item, "checkpoint (preview)");
  return chat_format(preview ? "deepseek-v4-preview" : "deepseek-v4");
}

// What the vendor's API takes goes through our JSON and our checks; the rest is for the encoder alone.
ChatRequest request_of(const ChatJson& item) {
  return refers_to(item, "vendor") ? chat_request_from_json(api_body(item)) : encoder_request(item);
}

std::string start_name(ReplyStart start) {
  switch (start) {
    case ReplyStart::kReasoning:
    case ReplyStart::kReasoningContinued:
      return "reasoning";
    case ReplyStart::kContent:
    case ReplyStart::kContentContinued:
      return "content";
    case ReplyStart::kCalls:
      return "tool_calls";
  }
  return "";
}

class ChatGoldens : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ChatGoldens, ::testing::Values("chat-v41", "chat-v4", "chat-v32"),
                         [](const auto& info) { return std::string(info.param).substr(5); });

TEST_P(ChatGoldens, EveryPromptIsTheReferencesToTheByte) {
  const std::string folder = GetParam();
  const ChatJson cases = chat_golden(folder + "/cases.json");
  ASSERT_GE(cases.size(), 29u);
  for (const ChatJson& item : cases) {
    SCOPED_TRACE(item["id"].dump() + " " + item["note"].get<std::string>());
    const ChatPrompt prompt = format_of(folder, item).render(request_of(item));
    EXPECT_EQ(prompt.text(), item["expected_text"]);
    ChatJson ranges = ChatJson::array();
    for (const auto& [begin, end] : prompt.control_ranges()) ranges.push_back({begin, end});
    EXPECT_EQ(ranges, item["special_bytes"]);
    EXPECT_EQ(ChatJson(prompt.images), item.value("images", ChatJson::array()));
    const std::string start = golden::text_or_empty(item, "reply_starts_in");
    EXPECT_EQ(start.empty() ? "" : start_name(prompt.reply_start), start);
  }
}

TEST_P(ChatGoldens, EveryPromptHasTheReferencesIds) {
  const std::string folder = GetParam();
  const Tokenizer& tokenizer = folder == "chat-v41" ? golden::v41_tokenizer() : golden::v4_tokenizer();
  for (const ChatJson& item : chat_golden(folder + "/cases.json")) {
    const ChatPrompt prompt = format_of(folder, item).render(request_of(item));
    EXPECT_EQ(encode_prompt(prompt, tokenizer), item["expected_ids"].get<std::vector<TokenId>>())
        << item["id"] << " " << item["note"];
  }
}

TEST(ChatGolden, TheTinyTokenizerGivesTheGoldenIds) {
  const ChatJson cases = chat_golden("chat-v41/cases.json");
  const ChatJson ids = chat_golden("chat-v41/tiny-ids.json");
  ASSERT_GT(ids.size(), 50u);
  for (const ChatJson& item : ids) {
    const ChatPrompt prompt =
        chat_format("deepseek-v4.1").render(request_of(cases[item["case"].get<std::size_t>()]));
    EXPECT_EQ(encode_prompt(prompt, golden::tiny_tokenizer()), item["ids"].get<std::vector<TokenId>>())
        << item["case"];
  }
}

void expect_refused(const ChatFormat& format, const ChatJson& item, const auto& request_of_item) {
  SCOPED_TRACE(std::string(format.name()) + ": " + item["note"].get<std::string>());
  try {
    const ChatPrompt prompt = format.render(request_of_item(item));
    ADD_FAILURE() << "accepted: " << prompt.text();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    const std::string sentence = error.what();
    EXPECT_GT(sentence.size(), 20u);
    EXPECT_LT(sentence.size(), 300u);
    EXPECT_EQ(sentence.find('\n'), std::string::npos) << sentence;
  }
}

TEST(ChatGolden, EveryBadRequestIsRefusedInOneSentence) {
  const auto from_api = [](const ChatJson& item) { return chat_request_from_json(api_body(item)); };
  const ChatJson v41 = chat_golden("chat-v41/errors.json");
  ASSERT_GT(v41.size(), 50u);
  for (const ChatJson& item : v41) expect_refused(chat_format("deepseek-v4.1"), item, from_api);
  for (const ChatJson& item : chat_golden("chat-v4/errors.json"))
    expect_refused(chat_format("deepseek-v4"), item, from_api);
  // V3.2's cases are its encoder's; that a role is known is the JSON reader's business.
  for (const ChatJson& item : chat_golden("chat-v32/errors.json"))
    expect_refused(chat_format("deepseek-v3.2"), item, [&](const ChatJson& bad) {
      return bad["note"] == "unknown role" ? from_api(bad) : encoder_request(bad);
    });
}

// Where the references differ: whose text is ours (docs/api.md says why), or a text of our own.
struct Decision {
  std::string note;
  std::string whose;
};

void expect_decisions(const ChatFormat& format, const ChatJson& disputed,
                      const std::vector<Decision>& not_vendor) {
  for (const ChatJson& item : disputed) {
    const std::string note = item["note"];
    std::string expected = item["vendor_text"];
    for (const Decision& decision : not_vendor)
      if (decision.note == note)
        expected =
            decision.whose == "checkpoint" ? item["checkpoint_text"].get<std::string>() : decision.whose;
    EXPECT_EQ(format.render(chat_request_from_json(api_body(item))).text(), expected) << note;
  }
}

TEST(ChatGolden, DisputedV41PromptsFollowOurDecisions) {
  expect_decisions(chat_format("deepseek-v4.1"), chat_golden("chat-v41/disputed.json"),
                   {{"double-encoded arguments", "checkpoint"}});
}

TEST(ChatGolden, DisputedV4PromptsFollowOurDecisions) {
  const ChatJson disputed = chat_golden("chat-v4/disputed.json");
  std::string unwrapped;
  for (const ChatJson& item : disputed) {
    if (item["note"] != "double-encoded arguments") continue;
    unwrapped = item["vendor_text"];
    const std::string wrapped = "name=\"arguments\" string=\"true\">\"{\\\"query\\\": \\\"x\\\"}\"<";
    const std::size_t at = unwrapped.find(wrapped);
    ASSERT_NE(at, std::string::npos);
    unwrapped.replace(at, wrapped.size(), "name=\"query\" string=\"true\">x<");
  }
  ASSERT_FALSE(unwrapped.empty());
  expect_decisions(chat_format("deepseek-v4"), disputed,
                   {{"no arguments", "checkpoint"},
                    {"numbers in a schema", "checkpoint"},
                    {"arguments: floats", "checkpoint"},
                    {"double-encoded arguments", unwrapped}});
}

}  // namespace
}  // namespace seekline
