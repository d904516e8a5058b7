// Reply parsing beyond the goldens: quoted tags, broken blocks in thoughts, other formats, half characters.
#include "text/reply.h"

#include <gtest/gtest.h>

#include <random>

#include "text/chat_golden.h"

namespace seekline {
namespace {

using Kind = ReplyEvent::Kind;

constexpr char kCall[] =
    "<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f\">\n<｜DSML｜ parameter name=\"a\" "
    "string=\"true\">x</｜DSML｜ parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

const ReplySyntax& v41() { return chat_format("deepseek-v4.1").reply_syntax(); }

Reply read(const ReplySyntax& syntax, ReplyStart start, const std::string& text, bool calls_allowed = true) {
  const ReplyOptions options{start, calls_allowed, true};
  ReplyParser whole(syntax, options);
  whole.feed(text);
  whole.finish();
  ReplyParser bytes(syntax, options);
  for (const char c : text) bytes.feed(std::string_view(&c, 1));
  bytes.finish();
  EXPECT_EQ(bytes.reply().reasoning, whole.reply().reasoning);
  EXPECT_EQ(bytes.reply().content, whole.reply().content);
  EXPECT_EQ(bytes.reply().calls.size(), whole.reply().calls.size());
  return whole.reply();
}

TEST(Reply, TheFirstCallsArgumentsStreamAndOnlyTheEndOfTheBlockMakesThemParse) {
  ReplyParser parser(v41(), {ReplyStart::kContent, true, true});
  EXPECT_TRUE(parser.feed("\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"f").empty());
  auto events = parser.feed("\">\n<｜DSML｜ parameter name=\"a\" string=\"true\">one ");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, Kind::kCallBegin);
  EXPECT_EQ(events[0].text, "f");
  EXPECT_EQ(events[1].text, "{\"a\": \"one ");
  events = parser.feed("two\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "two\\n");
  events = parser.feed("</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "\"");
  EXPECT_FALSE(parser.calls_complete());
  EXPECT_TRUE(parser.reply().calls.empty());
  events = parser.feed("</｜DSML｜ calls>");
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].text, "}");
  EXPECT_EQ(events[1].kind, Kind::kCallEnd);
  EXPECT_TRUE(parser.calls_complete());
  EXPECT_EQ(parser.reply().calls.at(0).arguments, "{\"a\": \"one two\\n\"}");
  EXPECT_TRUE(parser.feed("whatever follows").empty());
}

TEST(Reply, ABrokenBlockInTheReasoningStaysThereAndDoesNotForbidACallAfterIt) {
  const std::string mention = "I could write <｜DSML｜ calls> and then junk";
  const Reply reply = read(v41(), ReplyStart::kReasoning, mention + "</think>Now.\n\n" + kCall);
  EXPECT_EQ(reply.reasoning, mention);
  EXPECT_EQ(reply.content, "Now.");
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.calls[0].arguments, "{\"a\": \"x\"}");
}

TEST(Reply, AfterABrokenBlockInTheContentNothingIsACallAnyMore) {
  const std::string text =
      "C\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"</think>\">\n" + std::string(kCall);
  const Reply reply = read(v41(), ReplyStart::kContent, text);
  EXPECT_EQ(reply.content, text);
  EXPECT_TRUE(reply.calls.empty());
}

TEST(Reply, AfterAStrayTagNothingIsACallAnyMore) {
  for (const std::string stray :
       {"<｜DSML｜", "</｜DSML｜ invoke>", "<｜DSML｜ parameter name=\"", "<｜DSML｜ invoke name=\"g\">"}) {
    const std::string text = "C " + stray + "\n\n" + kCall;
    EXPECT_EQ(read(v41(), ReplyStart::kContent, text).content, text);
    EXPECT_TRUE(read(v41(), ReplyStart::kContent, text).calls.empty());
    const Reply thought = read(v41(), ReplyStart::kReasoning, text + "</think>Now." + kCall);
    EXPECT_EQ(thought.reasoning, text);
    EXPECT_EQ(thought.content, "Now.");
    EXPECT_EQ(thought.calls.size(), 1u);
  }
}

TEST(Reply, AKeyHoldsNoTag) {
  const std::string text =
      "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"<｜DSML｜ calls>a\" "
      "string=\"true\">x"
      "</｜DSML｜ parameter></｜DSML｜ invoke></｜DSML｜ calls>";
  EXPECT_EQ(read(v41(), ReplyStart::kContent, text).content, text);
}

TEST(Reply, AValueMayHoldHalfTagsAndCharactersButNoTag) {
  const auto call = [](const std::string& value) {
    return read(
        v41(), ReplyStart::kContent,
        "<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"a\" string=\"true\">" +
            value + "</｜DSML｜ parameter></｜DSML｜ invoke></｜DSML｜ calls>");
  };
  for (const std::string value : {"<｜DSM", "</｜DSML", "<<｜", "｜DSML｜", "</think>", "日本<｢」", "<"}) {
    const Reply reply = call(value);
    ASSERT_EQ(reply.calls.size(), 1u) << value;
    EXPECT_EQ(nlohmann::json::parse(reply.calls[0].arguments)["a"], value);
  }
  for (const std::string value :
       {"<｜DSML｜", "</｜DSML｜ invoke>", "x<｜DSML｜ calls>y", "</｜DSML｜parameter>"}) {
    const Reply reply = call(value);
    EXPECT_TRUE(reply.calls.empty()) << value;
    EXPECT_NE(reply.content.find(value), std::string::npos);
  }
}

TEST(Reply, APromptThatOpenedTheBlockIsReadOnFromThere) {
  const std::string rest = std::string(kCall).substr(std::string("<｜DSML｜ calls>\n").size());
  Reply reply = read(v41(), ReplyStart::kCalls, rest);
  ASSERT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(reply.content, "");
  reply = read(v41(), ReplyStart::kCalls, "I would rather not.");
  EXPECT_TRUE(reply.calls.empty());
  EXPECT_EQ(reply.content, "I would rather not.");
}

TEST(Reply, NewlinesAreKeptWhereTheReplyContinuesAText) {
  EXPECT_EQ(read(v41(), ReplyStart::kContent, "\n\nA").content, "A");
  EXPECT_EQ(read(v41(), ReplyStart::kContentContinued, "\n\nA").content, "\n\nA");
  EXPECT_EQ(read(v41(), ReplyStart::kReasoning, "\n\nR\n</think>\nA").reasoning, "R");
  EXPECT_EQ(read(v41(), ReplyStart::kReasoningContinued, "\n\nR\n</think>\nA").reasoning, "\n\nR");
}

TEST(Reply, NoEventEndsInsideACharacterThatCameInTwoPieces) {
  ReplyParser parser(v41(), {ReplyStart::kContent, true, true});
  const std::string text = "é日😀";
  for (const char c : text)
    for (const ReplyEvent& event : parser.feed(std::string_view(&c, 1)))
      EXPECT_NO_THROW(nlohmann::json(event.text).dump());
  parser.finish();
  EXPECT_EQ(parser.reply().content, text);
}

TEST(Reply, QuotedTagsOfOrdinaryTokensStayContent) {
  const Tokenizer& tokenizer = golden::tiny_tokenizer();
  const auto content_of = [&](bool as_tokens) {
    ReplyStream stream(tokenizer, v41(), {ReplyStart::kContent, true, true});
    for (const TokenId id :
         tokenizer.encode("See: " + std::string(kCall) + " </think>!", /*allow_added=*/as_tokens))
      stream.push(id);
    stream.finish();
    return std::pair(stream.reply().content, stream.reply().calls.size());
  };
  EXPECT_EQ(content_of(false), std::pair("See: " + std::string(kCall) + " </think>!", std::size_t{0}));
  EXPECT_EQ(content_of(true), std::pair(std::string("See: "), std::size_t{1}));
}

TEST(Reply, QuotedTagsInsideAnArgumentStayItsText) {
  const Tokenizer& tokenizer = golden::tiny_tokenizer();
  const std::string quoted = "</｜DSML｜ parameter></｜DSML｜ invoke><｜DSML｜ invoke name=\"rm\">";
  ReplyStream stream(tokenizer, v41(), {ReplyStart::kContent, true, true});
  const auto push = [&](const std::string& text, bool as_tokens) {
    for (const TokenId id : tokenizer.encode(text, as_tokens)) stream.push(id);
  };
  push("<｜DSML｜ calls><｜DSML｜ invoke name=\"f\"><｜DSML｜ parameter name=\"a\" string=\"true\">", true);
  push(quoted, false);
  push("</｜DSML｜ parameter></｜DSML｜ invoke></｜DSML｜ calls>", true);
  stream.finish();
  ASSERT_EQ(stream.reply().calls.size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(stream.reply().calls[0].arguments)["a"], quoted);
}

TEST(Reply, ATokenStreamGivesTheTextsReply) {
  const Tokenizer& tokenizer = golden::v41_tokenizer();
  for (const ChatJson& item : golden::chat_golden("chat-v41/parse.json")) {
    if (!item.contains("expected")) continue;
    ReplyOptions options;
    options.start = item["thinking"].get<bool>() ? ReplyStart::kReasoning : ReplyStart::kContent;
    options.calls_allowed = item["tools"];
    ReplyStream stream(tokenizer, v41(), options);
    for (const TokenId id : tokenizer.encode(item["completion"].get<std::string>(), /*allow_added=*/true))
      stream.push(id);
    stream.finish();
    EXPECT_EQ(stream.reply().content, item["expected"]["content"]) << item["note"];
    EXPECT_EQ(stream.reply().reasoning, item["expected"]["reasoning"]) << item["note"];
    EXPECT_EQ(stream.reply().calls.size(), item["expected"]["tool_calls"].size()) << item["note"];
  }
}

TEST(Reply, PlainFormatsHaveNoTags) {
  const std::string text = "\n a <think> </think> " + std::string(kCall);
  EXPECT_EQ(read(chat_format("deepseek-v3").reply_syntax(), ReplyStart::kContent, text, false).content, text);
  const ReplySyntax& v2 = chat_format("deepseek-v2").reply_syntax();
  EXPECT_EQ(read(v2, ReplyStart::kContent, "  two blanks", false).content, " two blanks");
  EXPECT_EQ(read(v2, ReplyStart::kContentContinued, " more", false).content, " more");
}

TEST(Reply, ChatMlCallsCountWhenNothingElseFollowsThem) {
  const ReplySyntax& chatml = chat_format("chatml").reply_syntax();
  const std::string one = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1.50}}\n</tool_call>";
  Reply reply = read(chatml, ReplyStart::kContent, "Sure.\n" + one + "\n" + one + "\n");
  EXPECT_EQ(reply.content, "Sure.");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[1].name, "f");
  EXPECT_EQ(reply.calls[1].arguments, "{\"a\": 1.5}");

  for (const std::string& broken :
       {one + "and more", one.substr(0, one.size() - 1), std::string("<tool_call>f(1)</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\"}</tool_call>"),
        std::string("<tool_call>{\"name\": \"\", \"arguments\": {}}</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\", \"arguments\": []}</tool_call>"),
        std::string("<tool_call>{\"name\": \"f\", \"arguments\": {}, \"x\": 1}</tool_call>"),
        one + one + "<tool_call>"}) {
    reply = read(chatml, ReplyStart::kContent, "C\n" + broken);
    EXPECT_TRUE(reply.calls.empty()) << broken;
    EXPECT_EQ(reply.content, "C\n" + broken);
  }
  EXPECT_EQ(read(chatml, ReplyStart::kContent, one, /*calls_allowed=*/false).content, one);
  EXPECT_EQ(read(chatml, ReplyStart::kCalls, one.substr(std::string("<tool_call>\n").size())).calls.size(),
            1u);
}

// A reader must never turn noise into a call whose arguments do not parse, whatever comes.
TEST(Reply, RandomSplicesOfTagsNeverGiveACallThatDoesNotParse) {
  std::vector<std::string> parts;
  const std::string call = kCall;
  for (std::size_t at = 0; at < call.size();) {
    const std::size_t end = std::min(call.find_first_of(" \n>", at) + 1, call.size());
    parts.push_back(call.substr(at, end - at));
    at = end;
  }
  for (const char* more : {"</think>", "x", "\"", "{\"a\": 1}", " string=\"false\">", "\n\n"})
    parts.emplace_back(more);
  std::mt19937 random(7);
  std::size_t calls = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      // Mostly the next part of a call, now and then another one.
      const std::size_t part =
          random() % 12 == 0 ? random() % parts.size() : static_cast<std::size_t>(i) % (parts.size() - 6);
      text += parts[part];
    }
    ReplyParser parser(v41(), {ReplyStart::kReasoning, true, round % 2 == 0});
    for (const std::string& piece : golden::random_pieces(text, random)) parser.feed(piece);
    parser.finish();
    for (const ReplyCall& made : parser.reply().calls) {
      EXPECT_TRUE(nlohmann::json::parse(made.arguments).is_object());
      EXPECT_FALSE(made.name.empty());
      ++calls;
    }
  }
  EXPECT_GT(calls, 100u);
}

}  // namespace
}  // namespace seekline
