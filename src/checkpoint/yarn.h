// RoPE scaling parameters as they stand in configs.
#pragma once

#include <cstdint>

namespace seekline {

/// Which inverse frequencies a rotary embedding uses.
struct RopeScaling {
  enum class Kind : std::uint8_t { kNone, kLinear, kLlama3, kYarn };
  Kind kind = Kind::kNone;
  double factor = 1;
  std::int64_t original_context = 0;                 ///< yarn, llama3; 0 means no YaRN
  double beta_fast = 32, beta_slow = 1;              ///< yarn
  double low_freq_factor = 1, high_freq_factor = 4;  ///< llama3
  double mscale = 0, mscale_all_dim = 0;             ///< yarn of V2, V3; 0 = absent
  double attention_factor = 0;  ///< yarn of llama: cos and sin times this; 0 = the default
};

}  // namespace seekline
