// Every golden reply, in one piece, byte by byte, and in random pieces.
#include <gtest/gtest.h>

#include <random>

#include "text/chat_golden.h"
#include "text/reply.h"

namespace seekline {
namespace {

constexpr int kRandomSplits = 30;

const ReplySyntax& syntax_of(const std::string& format) {
  return chat_format("deepseek-" + format).reply_syntax();
}

// What the events said, call by call.
struct Told {
  std::string reasoning, content;
  struct Call {
    std::string name, arguments;
    bool ended = false;
  };
  std::vector<Call> calls;
  bool rejected = false;

  void add(const std::vector<ReplyEvent>& events) {
    for (const ReplyEvent& event : events) {
      EXPECT_TRUE(nlohmann::json(event.text).dump().size() >= 2) << "a delta that is not UTF-8";
      switch (event.kind) {
        case ReplyEvent::Kind::kReasoning:
          reasoning += event.text;
          break;
        case ReplyEvent::Kind::kContent:
          content += event.text;
          break;
        case ReplyEvent::Kind::kCallBegin:
          ASSERT_EQ(event.call, static_cast<int>(calls.size()));
          calls.push_back({event.text, "", false});
          break;
        case ReplyEvent::Kind::kCallArguments:
          ASSERT_EQ(event.call, static_cast<int>(calls.size()) - 1) << "calls come one after another";
          calls.back().arguments += event.text;
          break;
        case ReplyEvent::Kind::kCallEnd:
          ASSERT_EQ(event.call, static_cast<int>(calls.size()) - 1);
          calls.back().ended = true;
          break;
        case ReplyEvent::Kind::kCallsRejected:
          rejected = true;
          break;
      }
    }
  }
};

void expect_reply(const ChatJson& item, const ChatJson& expected, const std::vector<std::string>& pieces,
                  bool stream_calls) {
  ReplyOptions options;
  options.start = item["thinking"].get<bool>() ? ReplyStart::kReasoning : ReplyStart::kContent;
  options.calls_allowed = item["tools"];
  options.stream_calls = stream_calls;
  ReplyParser parser(syntax_of(item["format"]), options);
  Told told;
  for (const std::string& piece : pieces) told.add(parser.feed(piece));
  told.add(parser.finish());

  const Reply& reply = parser.reply();
  EXPECT_EQ(reply.reasoning, expected["reasoning"]);
  EXPECT_EQ(reply.content, expected["content"]);
  ChatJson calls = ChatJson::array();
  for (const ReplyCall& call : reply.calls)
    calls.push_back({{"name", call.name}, {"arguments", call.arguments}});
  EXPECT_EQ(calls, expected["tool_calls"]);

  EXPECT_EQ(told.reasoning, reply.reasoning);
  EXPECT_EQ(told.content, reply.content);
  if (told.rejected || reply.calls.empty()) {
    EXPECT_EQ(told.rejected, !told.calls.empty());
    EXPECT_TRUE(stream_calls || told.calls.empty());
    for (const Told::Call& call : told.calls) {
      EXPECT_FALSE(call.ended);
      EXPECT_FALSE(nlohmann::json::accept(call.arguments)) << call.arguments;
    }
  } else {
    ASSERT_EQ(told.calls.size(), reply.calls.size());
    for (std::size_t i = 0; i < reply.calls.size(); ++i) {
      EXPECT_EQ(told.calls[i].name, reply.calls[i].name);
      EXPECT_EQ(told.calls[i].arguments, reply.calls[i].arguments);
      EXPECT_TRUE(told.calls[i].ended);
    }
  }
}

void expect_reply_for_any_split(const ChatJson& item, const ChatJson& expected) {
  SCOPED_TRACE(item["format"].get<std::string>() + " " + item["id"].dump() + " " +
               item["note"].get<std::string>());
  const std::string completion = item["completion"];
  std::vector<std::string> bytes;
  for (const char c : completion) bytes.emplace_back(1, c);
  std::mt19937 random(item["id"].get<unsigned>());
  for (const bool stream_calls : {false, true}) {
    expect_reply(item, expected, {completion}, stream_calls);
    expect_reply(item, expected, bytes, stream_calls);
    for (int i = 0; i < kRandomSplits; ++i)
      expect_reply(item, expected, golden::random_pieces(completion, random), stream_calls);
  }
}

class ReplyGoldens : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(, ReplyGoldens, ::testing::Values("chat-v41", "chat-v4", "chat-v32"),
                         [](const auto& info) { return std::string(info.param).substr(5); });

TEST_P(ReplyGoldens, EveryReplyIsReadAsExpectedInAnySplit) {
  std::size_t read = 0;
  for (const ChatJson& item : golden::chat_golden(std::string(GetParam()) + "/parse.json")) {
    if (item["class"] == "disputed") continue;
    expect_reply_for_any_split(item, item["expected"]);
    ++read;
  }
  EXPECT_GE(read, 8u);
}

// Two blocks: the first counts, what follows a block is dropped. An empty name cannot be called, and a second
// attribute is not DSML: such a block stays text (docs/api.md).
TEST_P(ReplyGoldens, DisputedRepliesFollowOurDecisions) {
  for (const ChatJson& item : golden::chat_golden(std::string(GetParam()) + "/parse.json")) {
    if (item["class"] != "disputed") continue;
    const std::string completion = item["completion"];
    ChatJson expected = item["vendor"];
    if (item["note"] != "two blocks") {
      expected["content"] = completion.substr(completion.find("</think>") + 8);
      expected["tool_calls"] = ChatJson::array();
    }
    expect_reply_for_any_split(item, expected);
  }
}

}  // namespace
}  // namespace seekline
