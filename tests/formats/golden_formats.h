// The golden files of the formats, opened by name.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "golden/safetensors_lite.h"

namespace seekline::golden {

inline SafetensorsLite format_golden(const std::string& name) {
  return SafetensorsLite(std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/formats/" + name +
                         ".safetensors");
}

/// Bits of f32 values, so that -0, subnormals and NaN compare as what they are.
inline std::vector<std::uint32_t> bits_of(const std::vector<float>& values) {
  std::vector<std::uint32_t> bits;
  bits.reserve(values.size());
  for (float v : values) bits.push_back(std::bit_cast<std::uint32_t>(v));
  return bits;
}

}  // namespace seekline::golden
