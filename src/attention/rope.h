// Rotary position embedding. Angles are f32 products of position and inverse frequency, as the released
// scripts form them; cos and sin are those of that f32 angle.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/batch.h"
#include "checkpoint/yarn.h"
#include "kernels/compute.h"

namespace seekline {

enum class RopeLayout : std::uint8_t {
  kInterleaved,  ///< adjacent channels (2i, 2i+1) are a pair
  kHalfSplit,    ///< channels (i, i + pairs) are a pair
};

/// Inverse frequencies of `dims` rotated channels.
class Rope {
 public:
  Rope() = default;
  Rope(int dims, double theta, const RopeScaling& scaling, std::int64_t max_context);

  int dims() const { return static_cast<int>(2 * inverse_.size()); }
  int pairs() const { return static_cast<int>(inverse_.size()); }
  const std::vector<float>& inverse_frequencies() const { return inverse_; }
  /// cos and sin carry this factor (1 but for some YaRN configs).
  float magnitude() const { return magnitude_; }

  void angles(std::int64_t position, float* cos, float* sin) const;  ///< [pairs] each

 private:
  std::vector<float> inverse_;
  float magnitude_ = 1;
};

/// cos and sin at the positions of a batch: [count, pairs] each, in the arena.
struct RopeAngles {
  float* cos = nullptr;
  float* sin = nullptr;
  int pairs = 0;

  const float* cos_row(std::int64_t row) const { return cos + row * pairs; }
  const float* sin_row(std::int64_t row) const { return sin + row * pairs; }
  RopeAngles from(std::int64_t row) const { return {cos + row * pairs, sin + row * pairs, pairs}; }
};

RopeAngles rope_angles(Compute& compute, const Rope& rope, const std::int64_t* positions, std::int64_t count);

/// Rotates x[2 * pairs] in place; `inverse` rotates back.
void rotate(float* x, const float* cos, const float* sin, int pairs, RopeLayout layout, bool inverse = false);

}  // namespace seekline
