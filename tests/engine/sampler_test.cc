#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/stop_strings.h"
#include "seekline/error.h"

namespace seekline {
namespace {

const std::vector<float> kLogits{1.0f, 3.0f, 2.0f, 3.0f, -1.0f};

TEST(Sampler, GreedyTakesTheBestAndOfEqualsTheLowest) {
  SamplingOptions o;
  o.temperature = 0;
  EXPECT_EQ(Sampler(o).choose(kLogits, {}, {}).token, 1);
}

TEST(Sampler, SameSeedSameStepSameChoice) {
  SamplingOptions o;
  o.seed = 42;
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> generated;
  for (int i = 0; i < 200; ++i) {
    const std::int32_t a = Sampler(o).choose(kLogits, {}, generated).token;
    EXPECT_EQ(a, Sampler(o).choose(kLogits, {}, generated).token);
    seen.insert(a);
    generated.push_back(a);
  }
  EXPECT_GT(seen.size(), 2u);
}

TEST(Sampler, DrawsFollowTheDistribution) {
  SamplingOptions o;
  std::vector<int> count(kLogits.size());
  std::vector<std::int32_t> generated;
  const int draws = 20000;
  for (int i = 0; i < draws; ++i) {
    const std::int32_t t = Sampler(o).choose(kLogits, {}, generated).token;
    ++count[static_cast<std::size_t>(t)];
    generated.push_back(0);
  }
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x);
  for (std::size_t i = 0; i < kLogits.size(); ++i) {
    const double p = std::exp(kLogits[i]) / sum;
    EXPECT_NEAR(count[i] / static_cast<double>(draws), p, 5 * std::sqrt(p * (1 - p) / draws)) << i;
  }
}

TEST(Sampler, TopKTopPAndMinPCutTheTail) {
  for (int which = 0; which < 3; ++which) {
    SamplingOptions o;
    if (which == 0) o.top_k = 2;
    if (which == 1) o.top_p = 0.6f;
    if (which == 2) o.min_p = 0.9f;
    std::vector<std::int32_t> generated;
    for (int i = 0; i < 300; ++i) {
      const std::int32_t t = Sampler(o).choose(kLogits, {}, generated).token;
      EXPECT_TRUE(t == 1 || t == 3) << which;
      generated.push_back(t);
    }
  }
}

TEST(Sampler, PenaltiesAndBiasMoveTheChoice) {
  SamplingOptions o;
  o.temperature = 0;
  o.repetition_penalty = 2;
  const std::vector<std::int32_t> one{1}, several{1, 3, 3};
  EXPECT_EQ(Sampler(o).choose(kLogits, one, {}).token, 3);
  o.repetition_penalty = 1;
  o.frequency_penalty = 0.6f;
  EXPECT_EQ(Sampler(o).choose(kLogits, {}, several).token, 1);
  o.frequency_penalty = 0;
  o.presence_penalty = 2.5f;
  EXPECT_EQ(Sampler(o).choose(kLogits, {}, several).token, 2);
  o = {};
  o.temperature = 0;
  o.logit_bias = {{4, 50.0f}};
  EXPECT_EQ(Sampler(o).choose(kLogits, {}, {}).token, 4);
}

TEST(Sampler, LogprobsAreThoseOfTheModel) {
  SamplingOptions o;
  o.temperature = 0;
  o.logit_bias = {{4, 50.0f}};
  const Choice c = Sampler(o).choose(kLogits, {}, {}, 3);
  double sum = 0;
  for (const float x : kLogits) sum += std::exp(x);
  EXPECT_NEAR(c.logprob, -1 - std::log(sum), 1e-6);
  ASSERT_EQ(c.top.size(), 3u);
  EXPECT_EQ(c.top[0].token, 1);
  EXPECT_EQ(c.top[1].token, 3);
  EXPECT_EQ(c.top[2].token, 2);
}

TEST(Sampler, ForbiddenTokensAreNeverChosen) {
  const std::vector<std::uint8_t> allowed{1, 0, 0, 0, 1};
  SamplingOptions o;
  o.temperature = 5;
  std::vector<std::int32_t> generated;
  for (int i = 0; i < 200; ++i) {
    const std::int32_t t = Sampler(o).choose(kLogits, {}, generated, 0, allowed).token;
    EXPECT_TRUE(t == 0 || t == 4);
    generated.push_back(t);
  }
}

TEST(Sampler, OptionsOutOfRangeAreRefusedByName) {
  SamplingOptions o;
  o.top_p = 0;
  try {
    const Sampler refused(o);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("top_p"), std::string::npos);
    EXPECT_EQ(e.code(), ErrorCode::kUsage);
  }
}

TEST(StopStrings, NeverLeakAPieceOfAStopStringForAnySplit) {
  const std::string text = "abcSTSTOPxyz";
  for (std::size_t i = 0; i <= text.size(); ++i) {
    for (std::size_t j = i; j <= text.size(); ++j) {
      StopStrings stops({"STOP", "zzz"});
      std::string out = stops.push(text.substr(0, i));
      out += stops.push(text.substr(i, j - i));
      out += stops.push(text.substr(j));
      out += stops.flush();
      EXPECT_EQ(out, "abcST");
      EXPECT_TRUE(stops.matched());
      EXPECT_EQ(stops.match(), "STOP");
    }
  }
}

TEST(StopStrings, WithoutAMatchEverythingComesOut) {
  StopStrings stops({"END"});
  std::string out = stops.push("the EN");
  EXPECT_EQ(out, "the ");
  out += stops.push("D of");
  EXPECT_TRUE(stops.matched());
  StopStrings other({"END"});
  std::string rest = other.push("the EN");
  rest += other.flush();
  EXPECT_EQ(rest, "the EN");
}

}  // namespace
}  // namespace seekline
