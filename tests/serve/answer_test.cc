// From tokens to the events of an answer.
#include "serve/answer.h"

#include <random>

#include "serve/scripted.h"

namespace seekline::serve {
namespace {

ChoiceOutcome outcome_of(const GenerationSpec& spec, const Script& script) {
  const AnswerContext context = tiny_context();
  const auto generation = std::make_shared<Generation>(1);
  play(context, spec, script, generation);
  drain(*generation);
  return generation->outcomes()[0];
}

TEST(Answer, ReasoningContentAndCallsComeApart) {
  const ChoiceOutcome outcome = outcome_of(chat_spec(true), {kTwoCalls});
  EXPECT_EQ(outcome.reasoning, "I think.");
  EXPECT_EQ(outcome.content, "Let me look.");
  ASSERT_EQ(outcome.calls.size(), 2U);
  EXPECT_EQ(outcome.calls[0].name, "find");
  EXPECT_EQ(ChatJson::parse(outcome.calls[0].arguments), (ChatJson{{"what", "a \"b\""}, {"n", 3}}));
  EXPECT_EQ(outcome.calls[1].name, "open");
  EXPECT_TRUE(outcome.calls[1].complete);
  EXPECT_EQ(outcome.finish, Finish::kCalls);
  EXPECT_GT(outcome.reasoning_tokens, 2);
  EXPECT_GT(outcome.completion_tokens, outcome.reasoning_tokens);
}

TEST(Answer, GenerationStopsAtTheEndOfTheCalls) {
  const AnswerContext context = tiny_context();
  const auto generation = std::make_shared<Generation>(1);
  const std::string more = std::string(kTwoCalls) + " and more text that nobody wants";
  const std::size_t all = context.tokenizer->encode(more, true).size();
  EXPECT_LT(play(context, chat_spec(true), {more}, generation), all);
}

TEST(Answer, AMalformedCallIsTextAndNotACall) {
  const ChoiceOutcome outcome = outcome_of(chat_spec(true), {kBrokenCall});
  EXPECT_TRUE(outcome.calls.empty());
  EXPECT_NE(outcome.content.find("{oops"), std::string::npos);
  EXPECT_EQ(outcome.finish, Finish::kStop);
}

TEST(Answer, WithoutParallelCallsOnlyTheFirstIsPassedOn) {
  GenerationSpec spec = chat_spec(true);
  spec.parallel_calls = false;
  const ChoiceOutcome outcome = outcome_of(spec, {kTwoCalls});
  ASSERT_EQ(outcome.calls.size(), 1U);
  EXPECT_EQ(outcome.calls[0].name, "find");
  EXPECT_EQ(outcome.finish, Finish::kCalls);
}

TEST(Answer, AStopStringEndsTheContentBeforeItAndLeavesReasoningAlone) {
  GenerationSpec spec = chat_spec();
  spec.stop = {"END", "never"};
  const ChoiceOutcome outcome = outcome_of(spec, {"The END of thought.</think>one two ENDING"});
  EXPECT_EQ(outcome.reasoning, "The END of thought.");
  EXPECT_EQ(outcome.content, "one two ");
  EXPECT_EQ(outcome.finish, Finish::kStopString);
  EXPECT_EQ(outcome.stop_string, "END");
}

TEST(Answer, WhatMayBeTheStartOfAStopStringIsSentWhenTheTextEnds) {
  GenerationSpec spec = chat_spec(false, ReplyStart::kContent);
  spec.stop = {"ENDING"};
  const ChoiceOutcome outcome = outcome_of(spec, {"this is the END"});
  EXPECT_EQ(outcome.content, "this is the END");
  EXPECT_EQ(outcome.finish, Finish::kStop);
}

TEST(Answer, TheTokenLimitIsSaidAndWhatWasHeldBackIsSent) {
  const ChoiceOutcome outcome = outcome_of(chat_spec(), {"thought</think>half an ans", false});
  EXPECT_EQ(outcome.content, "half an ans");
  EXPECT_EQ(outcome.finish, Finish::kLength);
}

TEST(Answer, PlainTextKeepsTagsAndDropsTheEndToken) {
  GenerationSpec spec = chat_spec();
  spec.chat = false;
  const ChoiceOutcome outcome = outcome_of(spec, {"a</think>b"});
  EXPECT_EQ(outcome.content, "a</think>b");
  EXPECT_TRUE(outcome.reasoning.empty());
}

TEST(Answer, TheReasoningLimitLeavesOnlyItsEndToBeChosen) {
  const AnswerContext context = tiny_context();
  GenerationSpec spec = chat_spec();
  spec.reasoning_limit = 3;
  Answer answer(context, spec, 0, 100, std::make_shared<Generation>(1));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(answer.allowed().empty()) << i;
    EXPECT_TRUE(answer.on_token({50, 0, {}}));
  }
  const std::span<const std::uint8_t> allowed = answer.allowed();
  ASSERT_EQ(allowed.size(), 1024U);
  for (std::size_t i = 0; i < allowed.size(); ++i)
    EXPECT_EQ(allowed[i] != 0, static_cast<TokenId>(i) == *context.think_end) << i;
  EXPECT_TRUE(answer.on_token({*context.think_end, 0, {}}));
  EXPECT_TRUE(answer.allowed().empty());
}

TEST(Answer, AConstrainedAnswerIsWholeHoweverFewTokensThereAre) {
  const AnswerContext context = tiny_context();
  const ChatJson schema = ChatJson::parse(R"({"type": "object", "properties": {"name": {"type": "string"},
      "tags": {"type": "array", "items": {"enum": ["red", "green"]}}, "n": {"type": "integer"}},
      "required": ["name", "tags"], "additionalProperties": false})");
  std::mt19937 random(4);
  int cut = 0;
  for (int trial = 0; trial < 40; ++trial) {
    GenerationSpec spec = chat_spec(false, ReplyStart::kContent);
    spec.grammar = Grammar::from_json_schema(schema);
    const std::int64_t needed =
        std::ssize(GrammarState(*spec.grammar, context.vocabulary).completion_tokens());
    const std::int64_t max_tokens = needed + trial;
    const auto generation = std::make_shared<Generation>(1);
    Answer answer(context, spec, 0, max_tokens, generation);
    bool goes_on = true;
    std::int64_t taken = 0;
    while (goes_on && taken < max_tokens) {
      const std::span<const std::uint8_t> allowed = answer.allowed();
      std::vector<TokenId> candidates;
      for (std::size_t i = 0; i < allowed.size(); ++i)
        if (allowed[i]) candidates.push_back(static_cast<TokenId>(i));
      ASSERT_FALSE(candidates.empty());
      goes_on = answer.on_token({candidates[random() % candidates.size()], 0, {}});
      ++taken;
    }
    SequenceSummary summary;
    summary.end = goes_on ? SequenceEnd::kLength : SequenceEnd::kStopped;
    answer.on_end(summary);
    drain(*generation);
    const ChoiceOutcome& outcome = generation->outcomes()[0];
    cut += outcome.finish == Finish::kLength ? 1 : 0;
    EXPECT_TRUE(trial > 0 || outcome.finish == Finish::kLength) << "the shortest answer was not the model's";
    const ChatJson value = ChatJson::parse(outcome.content, nullptr, false);
    ASSERT_TRUE(value.is_object()) << outcome.content;
    EXPECT_TRUE(value.contains("name") && value.contains("tags")) << outcome.content;
    EXPECT_LE(outcome.completion_tokens, max_tokens);
  }
  EXPECT_GT(cut, 0);
}

TEST(Answer, AConstrainedAnswerThatEndsByItselfWasNotCut) {
  GenerationSpec spec = chat_spec(false, ReplyStart::kContent);
  spec.grammar = Grammar::json_object();
  const ChoiceOutcome whole = outcome_of(spec, {R"({"a": 1})", false});
  EXPECT_EQ(whole.content, R"({"a": 1})");
  EXPECT_EQ(whole.finish, Finish::kStop);
  const ChoiceOutcome cut = outcome_of(spec, {R"({"a": [1, 2, 3, 4, 5, 6]})", false, 9});
  EXPECT_TRUE(ChatJson::parse(cut.content, nullptr, false).is_object()) << cut.content;
  EXPECT_EQ(cut.finish, Finish::kLength);
  EXPECT_LE(cut.completion_tokens, 9);
}

}  // namespace
}  // namespace seekline::serve
