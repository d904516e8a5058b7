// Prompts find what earlier ones computed, whoever asked, and answer as if they had not.
#include <random>

#include "engine/golden_model.h"
#include "engine/prefix_cache.h"
#include "engine/timeline.h"
#include "engine/verify_reuse.h"
#include "seekline/session.h"

namespace seekline::golden {
namespace {

using Tokens = std::vector<std::int32_t>;

struct Server {
  explicit Server(const std::string& name, DecoderMode decoder = DecoderMode::kCed,
                  PrefixCacheOptions options = {}) {
    ModelOptions model_options;
    model_options.threads = 1;
    model_options.decoder = decoder;
    model_options.batch_tokens = 128;
    model = Model::open(model_folder(name), model_options);
    prefixes = std::make_shared<PrefixCache>(model->pages(), decoder, nullptr, options);
  }
  Session session() const {
    SessionOptions options;
    options.prefixes = prefixes;
    return Session(model, options);
  }
  std::vector<float> cold(const Tokens& tokens) const {
    Session session(model);
    session.prompt(tokens);
    return {session.logits().begin(), session.logits().end()};
  }
  // A request of its own: the report, after checking its logits against a cold run.
  ReuseReport ask(const Tokens& tokens, int answer = 0) const {
    Session session = this->session();
    session.prompt(tokens);
    EXPECT_TRUE(std::ranges::equal(session.logits(), cold(tokens))) << "prompt of " << tokens.size();
    for (int i = 0; i < answer; ++i) session.extend((tokens.back() + i) % 200 + 10);
    return session.reuse();
  }

  std::shared_ptr<Model> model;
  std::shared_ptr<PrefixCache> prefixes;
};

Tokens random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(10 + random() % 200);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class PrefixCaches : public ::testing::TestWithParam<std::tuple<std::string, DecoderMode>> {
 protected:
  Server server(PrefixCacheOptions options = {}) const {
    return Server(std::get<0>(GetParam()), std::get<1>(GetParam()), options);
  }
};

TEST_P(PrefixCaches, AlternatingConversationsAreBothKept) {
  const Server s = server();
  Tokens a = random_tokens(150, 1), b = random_tokens(140, 2);
  s.ask(a);
  s.ask(b);
  for (unsigned turn = 0; turn < 3; ++turn) {
    const std::int64_t held_a = std::ssize(a), held_b = std::ssize(b);
    a = joined(a, random_tokens(20, 10 + turn));
    b = joined(b, random_tokens(30, 20 + turn));
    EXPECT_EQ(s.ask(a).reused_tokens, held_a);
    EXPECT_EQ(s.ask(b).reused_tokens, held_b);
  }
}

TEST_P(PrefixCaches, AHitAfterAnUnrelatedPromptAnswersLikeAColdRun) {
  const Server s = server();
  const Tokens a = random_tokens(130, 3);
  s.ask(a);
  s.ask(random_tokens(200, 4));
  EXPECT_EQ(s.ask(joined(a, random_tokens(5, 5))).reused_tokens, 130);
}

TEST_P(PrefixCaches, ATurnSentAgainWithoutItsReasoningReusesUpToTheChange) {
  const Server s = server();
  const Tokens prompt = random_tokens(90, 6), reasoning = random_tokens(60, 7), answer = random_tokens(30, 8);
  s.ask(joined(joined(prompt, reasoning), answer));
  const ReuseReport report = s.ask(joined(joined(prompt, answer), random_tokens(12, 9)));
  EXPECT_EQ(report.reused_tokens, 90);
  EXPECT_NE(report.why_not_more.find("90"), std::string::npos) << report.why_not_more;
}

TEST_P(PrefixCaches, AShortPromptIsReusedToo) {
  const Server s = server();
  const Tokens prompt = random_tokens(50, 11);
  s.ask(prompt);
  EXPECT_EQ(s.ask(joined(prompt, random_tokens(10, 12))).reused_tokens, 50);
  EXPECT_EQ(s.ask(prompt).reused_tokens, 49);
}

TEST_P(PrefixCaches, ReuseNeverShrinksOverThirtyTurns) {
  const Server s = server();
  Tokens conversation = random_tokens(40, 13);
  std::int64_t reused = 0;
  for (unsigned turn = 0; turn < 30; ++turn) {
    const std::int64_t before = std::ssize(conversation);
    const ReuseReport report = s.ask(conversation, 3);
    EXPECT_GE(report.reused_tokens, reused) << "turn " << turn;
    EXPECT_GE(report.reused_tokens, turn == 0 ? 0 : before - 7 - 1) << "turn " << turn;
    reused = report.reused_tokens;
    conversation = joined(conversation, random_tokens(7, 100 + turn));
  }
}

TEST_P(PrefixCaches, CutPromptsCostAReplayAndNeverAPrefill) {
  const Server s = server();
  const Tokens whole = random_tokens(1300, 14);
  s.ask(whole);
  const CachePlan& plan = s.model->plan();
  const std::int64_t reach = replay_reach(plan, std::get<1>(GetParam()));
  for (const std::size_t cut : {0, 1, 2, 3, 4, 127, 128, 129, 1000}) {
    const Tokens part(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(cut));
    const ReuseReport report = s.ask(part);
    EXPECT_EQ(report.reused_tokens, std::ssize(part) - 1) << "cut by " << cut;
    EXPECT_LE(report.computed_tokens, reach + plan.window + 1) << "cut by " << cut;
  }
}

TEST_P(PrefixCaches, AnEditOfTheLastMessageCostsAReplayAndWhatIsNew) {
  const Server s = server();
  const Tokens whole = random_tokens(1300, 24);
  s.ask(whole, 5);
  const CachePlan& plan = s.model->plan();
  const std::int64_t reach = replay_reach(plan, std::get<1>(GetParam()));
  for (const std::size_t edited : {1, 2, 3, 4, 127, 128, 129, 1000}) {
    Tokens tokens(whole.begin(), whole.end() - static_cast<std::ptrdiff_t>(edited));
    const std::int64_t common = std::ssize(tokens);
    const Tokens other =
        joined({whole[tokens.size()] + 1}, random_tokens(11, 25 + static_cast<unsigned>(edited)));
    const ReuseReport report = s.ask(joined(tokens, other));
    EXPECT_EQ(report.reused_tokens, common) << "the last " << edited << " edited";
    EXPECT_LE(report.computed_tokens, reach + plan.window + std::ssize(other))
        << "the last " << edited << " edited";
  }
}

TEST_P(PrefixCaches, AnAbortedPromptGoesOnWhereItStopped) {
  const Server s = server();
  const Tokens prompt = random_tokens(600, 15);
  {
    Session session = s.session();
    EXPECT_FALSE(session.prompt(prompt, [](std::int64_t done) { return done < 300; }));
  }
  EXPECT_GE(s.ask(prompt).reused_tokens, 300);
}

TEST_P(PrefixCaches, FourSessionsInTurnAnswerLikeColdRuns) {
  const Server s = server();
  const Tokens common = random_tokens(100, 16);
  std::vector<Session> sessions;
  std::vector<Tokens> texts;
  for (unsigned i = 0; i < 4; ++i) {
    sessions.push_back(s.session());
    texts.push_back(joined(common, random_tokens(10 + i, 30 + i)));
  }
  for (unsigned turn = 0; turn < 3; ++turn)
    for (unsigned i = 0; i < 4; ++i) {
      sessions[i].prompt(texts[i]);
      EXPECT_TRUE(std::ranges::equal(sessions[i].logits(), s.cold(texts[i])))
          << "turn " << turn << " session " << i;
      sessions[i].extend(77);
      texts[i] = joined(texts[i], random_tokens(9, 50 + 4 * turn + i));
    }
}

TEST_P(PrefixCaches, EvictionGivesPagesBackAndForgetsTheOldestFirst) {
  const Server s = server();
  const Tokens old_prompt = random_tokens(300, 17), new_prompt = random_tokens(300, 18);
  s.ask(old_prompt);
  s.ask(new_prompt);
  const std::int64_t used = s.model->pages().used_bytes();
  s.prefixes->evict(1);
  EXPECT_LT(s.model->pages().used_bytes(), used);
  EXPECT_EQ(s.prefixes->stats().timelines, 1);
  EXPECT_EQ(s.ask(new_prompt).reused_tokens, 299);
  s.prefixes->evict(used);
  EXPECT_EQ(s.prefixes->stats().timelines, 0);
  EXPECT_EQ(s.model->pages().used_bytes(), 0);
}

TEST_P(PrefixCaches, SnapshotsGoBeforeRows) {
  PrefixCacheOptions options;
  options.snapshot_bytes = 0;
  const Server s = server(options);
  const Tokens prompt = random_tokens(400, 19);
  s.ask(prompt);
  EXPECT_EQ(s.prefixes->stats().snapshot_bytes, 0);
  EXPECT_EQ(s.ask(joined(prompt, random_tokens(3, 20))).reused_tokens, 400);
}

TEST_P(PrefixCaches, WhatABoundedReplayLeavesIsNotKept) {
  const Server s = server();
  if (s.model->plan().window == 0) GTEST_SKIP() << "no windows, nothing to replay";
  const Tokens prompt = random_tokens(300, 21);
  s.ask(prompt);
  {
    SessionOptions options;
    options.prefixes = s.prefixes;
    options.way = ReplayWay::kBounded;
    Session session(s.model, options);
    session.prompt(joined(prompt, random_tokens(200, 22)));
    EXPECT_TRUE(session.reuse().approximate);
    EXPECT_EQ(session.reuse().reused_tokens, 300);
  }
  EXPECT_EQ(s.ask(joined(prompt, random_tokens(200, 22))).reused_tokens, 300);
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<std::string, DecoderMode>>& info) {
  std::string name =
      std::get<0>(info.param) + (std::get<1>(info.param) == DecoderMode::kCed ? "_ced" : "_exact");
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Models, PrefixCaches,
                         ::testing::Values(std::tuple{"v41-tiny", DecoderMode::kCed},
                                           std::tuple{"v41-tiny-long", DecoderMode::kExact},
                                           std::tuple{"v4-tiny", DecoderMode::kExact},
                                           std::tuple{"v32-tiny-fp8", DecoderMode::kExact},
                                           std::tuple{"llama-gqa-tiny", DecoderMode::kCed}),
                         test_name);

}  // namespace
}  // namespace seekline::golden
