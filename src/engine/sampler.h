// Chooses tokens from logits. A choice depends on logits, options, history and position only.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "seekline/sampling.h"

namespace seekline {

struct TokenLogprob {
  std::int32_t token = 0;
  float logprob = 0;  ///< natural log, of the model's own distribution (before any option)
};

struct Choice {
  std::int32_t token = 0;
  float logprob = 0;              ///< as TokenLogprob
  std::vector<TokenLogprob> top;  ///< best first, as many as asked for; ties: lower id
};

class Sampler {
 public:
  /// Checks the options; throws Error(kUsage).
  explicit Sampler(SamplingOptions options);

  /// `prompt` and `generated` are the tokens so far; the draw is seeded by (seed, number of generated
  /// tokens). Tokens for which `allowed` (one byte a token, may be empty) is 0 are never chosen; at least one
  /// must be allowed. `top_logprobs` -1: the choice has no log probability at all, which saves a pass over
  /// the vocabulary.
  Choice choose(std::span<const float> logits, std::span<const std::int32_t> prompt,
                std::span<const std::int32_t> generated, int top_logprobs = 0,
                std::span<const std::uint8_t> allowed = {});

  const SamplingOptions& options() const { return options_; }

 private:
  void adjust(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated);
  void sort_best(std::size_t count);
  std::int32_t draw(std::uint64_t step);

  SamplingOptions options_;
  std::vector<float> logits_;                          // adjusted copy
  std::vector<std::pair<float, std::int32_t>> order_;  // candidates, best first up to sorted_
  std::size_t sorted_ = 0;
  std::vector<std::int32_t> seen_;  // generated counts by token
};

/// A uniform double in [0, 1) for (seed, step): splitmix64's output function over both.
double uniform_at(std::uint64_t seed, std::uint64_t step);

}  // namespace seekline
