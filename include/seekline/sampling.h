// How the next token is chosen from logits.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace seekline {

/// Steps in this order: logit_bias, penalties, greedy if temperature is 0, temperature, top_k, top_p, min_p,
/// draw.
struct SamplingOptions {
  float temperature = 1.0f;  ///< 0: greedy
  int top_k = 0;             ///< 0: off
  float top_p = 1.0f;        ///< (0, 1]
  float min_p = 0.0f;        ///< [0, 1): keep tokens with at least this share of the best one's probability
  float repetition_penalty =
      1.0f;  ///< > 0; divides positive, multiplies negative logits of tokens seen (prompt too)
  float presence_penalty = 0.0f;   ///< subtracted once from tokens that were generated
  float frequency_penalty = 0.0f;  ///< subtracted for every time they were generated
  std::uint64_t seed = 0;          ///< same seed, same tokens: same choice
  std::vector<std::pair<std::int32_t, float>> logit_bias;
};

/// Throws Error(kUsage) naming the first option that is out of range.
void check_sampling_options(const SamplingOptions& options);

}  // namespace seekline
