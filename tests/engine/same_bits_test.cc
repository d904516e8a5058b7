// Same tokens, same bits: chunks, batches, threads, decode.
#include <random>

#include "engine/golden_model.h"

namespace seekline::golden {
namespace {

const std::vector<std::string>& models() {
  static const std::vector<std::string> names{
      "v41-tiny",       "v41-tiny-long", "v41-tiny-mtp", "v4-tiny", "llama-gqa-tiny", "llama-mha-tiny",
      "llama-mqa-tiny", "v2lite-tiny",   "v2-tiny",      "v3-tiny", "v32-tiny",       "v32-tiny-fp8"};
  return names;
}

// The longest case of a model, cut to `limit` tokens.
std::vector<std::int32_t> long_case(const std::string& name, std::size_t limit) {
  std::vector<std::int32_t> longest;
  for (const GoldenCase& c : golden_cases(model_folder(name)))
    if (c.tokens.size() > longest.size()) longest = c.tokens;
  longest.resize(std::min(limit, longest.size()));
  return longest;
}

class SameBits : public ::testing::TestWithParam<Arithmetic> {
 protected:
  NumericSettings settings() const { return {Activations::kReference, Rows::kDeployed, GetParam()}; }
};

TEST_P(SameBits, ChunksOfAnySizeGiveTheLogitsOfOnePrefill) {
  for (const std::string& name : models()) {
    const std::shared_ptr<Model> model = open_model(name, settings());
    const std::vector<std::int32_t> tokens = long_case(name, 140);
    const std::vector<float> whole = all_logits(*model, tokens, {tokens.size()});
    for (const std::size_t chunk : {1, 2, 3, 7, 16, 64})
      EXPECT_TRUE(whole == all_logits(*model, tokens, in_chunks(tokens.size(), chunk)))
          << name << " chunk " << chunk;
  }
}

TEST_P(SameBits, RandomSplitsGiveTheLogitsOfOnePrefill) {
  std::mt19937 random(7);
  for (const std::string& name : models()) {
    const std::shared_ptr<Model> model = open_model(name, settings());
    const std::vector<std::int32_t> tokens = long_case(name, 90);
    const std::vector<float> whole = all_logits(*model, tokens, {tokens.size()});
    for (int trial = 0; trial < 6; ++trial) {
      std::vector<std::size_t> ends;
      for (std::size_t at = 0; at < tokens.size();) {
        at = std::min(tokens.size(), at + 1 + random() % 23);
        ends.push_back(at);
      }
      EXPECT_TRUE(whole == all_logits(*model, tokens, ends)) << name << " trial " << trial;
    }
  }
}

TEST_P(SameBits, EveryShortLengthIsThePrefixOfALongerOne) {
  for (const std::string& name : models()) {
    const std::shared_ptr<Model> model = open_model(name, settings());
    const std::vector<std::int32_t> tokens = long_case(name, 36);
    const std::vector<float> whole = all_logits(*model, tokens, {tokens.size()});
    for (const std::size_t length : {1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33}) {
      const std::vector<std::int32_t> part(
          tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(std::min(length, tokens.size())));
      const std::vector<float> got = all_logits(*model, part, {part.size()});
      EXPECT_TRUE(std::equal(got.begin(), got.end(), whole.begin())) << name << " length " << length;
    }
  }
}

TEST_P(SameBits, ThreadCountsDoNotMatter) {
  for (const std::string& name : models()) {
    const std::vector<std::int32_t> tokens = long_case(name, 70);
    const std::vector<float> one =
        all_logits(*open_model(name, settings(), 1), tokens, {40, tokens.size() - 1, tokens.size()});
    for (const int threads : {2, 3, 5})
      EXPECT_TRUE(one == all_logits(*open_model(name, settings(), threads), tokens,
                                    {40, tokens.size() - 1, tokens.size()}))
          << name << " threads " << threads;
  }
}

TEST_P(SameBits, SequencesOfMixedLengthsInOneBatchEqualThemselvesAlone) {
  for (const std::string& name : models()) {
    const std::shared_ptr<Model> model = open_model(name, settings(), 2);
    const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
    const std::vector<std::int32_t> all = long_case(name, 100);
    std::vector<std::vector<std::int32_t>> sequences;
    for (const std::size_t n : {1, 37, 5, 64, 17})
      sequences.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(n % 3),
                             all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), n + n % 3)));
    std::vector<std::unique_ptr<SequenceCache>> caches;
    std::vector<seekline::Run> runs;
    std::vector<std::int32_t> last(sequences.size());
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      caches.push_back(std::make_unique<SequenceCache>(model->pages()));
      last[i] = static_cast<std::int32_t>(sequences[i].size()) - 1;
      seekline::Run run;
      run.cache = caches.back().get();
      run.tokens = sequences[i];
      run.wanted_logits = {&last[i], 1};
      runs.push_back(run);
    }
    std::vector<float> together(sequences.size() * vocab);
    model->executor().forward(
        runs, {together.data(), static_cast<std::int64_t>(sequences.size()), model->vocab_size()});
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::vector<float> alone = all_logits(*model, sequences[i], {sequences[i].size()});
      EXPECT_TRUE(std::equal(alone.end() - static_cast<std::ptrdiff_t>(vocab), alone.end(),
                             together.begin() + static_cast<std::ptrdiff_t>(i * vocab)))
          << name << " sequence " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, SameBits, ::testing::Values(Arithmetic::kFast, Arithmetic::kF32),
                         [](const auto& info) { return info.param == Arithmetic::kFast ? "Fast" : "F32"; });

}  // namespace
}  // namespace seekline::golden
