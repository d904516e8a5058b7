// The form of a query for index scores over fp4 keys, of every vector level.
//
// A key nibble becomes 12 + 2 e2m1 (0 .. 24, unsigned), a query nibble 2 e2m1 (signed); the sum of a block is
// corrected by -12 times the sum of the query's block. All of that is exact in int32, and so is the product
// with the two scales, so the only roundings are the sums over blocks and heads: the same as the portable
// level's, bit for bit.
#pragma once

#include "formats/elements.h"
#include "formats/quantizers.h"
#include "kernels/simd.h"

namespace seekline::index_lanes {

inline constexpr int kBlock = 32;
inline constexpr int kWidest = 1024;  ///< channels of a key

/// 12 + 2 e2m1 of every nibble, as a table for byte shuffles.
alignas(16) static constexpr std::uint8_t kKeyBytes[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                           12, 11, 10, 9,  8,  6,  4,  0};

/// A prepared query: [heads][width / 4] dwords of 4 int8 (of each 8 channels the even ones, then the odd
/// ones, as nibbles unpack), [heads][blocks] int32 corrections, [heads][blocks] f32 quarter scales.
struct Query {
  const std::int32_t* values;
  const std::int32_t* correction;
  const float* scale;
};

SEEKLINE_SIMD Query query_at(const std::uint8_t* q, int width, int heads) {
  const auto* values = reinterpret_cast<const std::int32_t*>(q);
  const std::int32_t* correction = values + heads * (width / 4);
  return {values, correction, reinterpret_cast<const float*>(correction + heads * (width / kBlock))};
}

SEEKLINE_SIMD std::int64_t query_bytes(int width, int heads) {
  return std::int64_t{heads} * (width + width / kBlock * 8);
}

SEEKLINE_SIMD void prepare_query(const float* q, int width, int heads, std::uint8_t* out) {
  const Query at = query_at(out, width, heads);
  auto* values = reinterpret_cast<std::int8_t*>(out);
  auto* correction = const_cast<std::int32_t*>(at.correction);
  auto* scale = const_cast<float*>(at.scale);
  for (int h = 0; h < heads; ++h) {
    for (int first = 0; first < width; first += kBlock) {
      const QuantizedBlock block = quantize_block(BlockQuantizer::kFp4Block32, {q + h * width + first, 32});
      int sum = 0;
      for (int i = 0; i < kBlock; ++i) {
        const int value = static_cast<int>(2 * e2m1_to_f32(block.codes[i]));
        sum += value;
        values[h * width + first + i / 8 * 8 + i % 2 * 4 + i % 8 / 2] = static_cast<std::int8_t>(value);
      }
      *correction++ = -12 * sum;
      *scale++ = block.scale * 0.25f;
    }
  }
}

/// The scales of up to kKeys keys -> lanes; 0 for missing keys (subnormal scales would slow products down).
template <int kKeys>
SEEKLINE_SIMD void spread_scales(const std::uint8_t* codes, std::int64_t count, int blocks,
                                 float (*out)[kKeys]) {
  for (std::int64_t r = 0; r < kKeys; ++r)
    for (int b = 0; b < blocks; ++b) out[b][r] = r < count ? simd::power_of(codes[r * blocks + b]) : 0.0f;
}

/// The same head's place `heads` further on.
SEEKLINE_SIMD Query after(const Query& q, int width, int heads) {
  const int blocks = width / kBlock;
  return {q.values + heads * (width / 4), q.correction + heads * blocks, q.scale + heads * blocks};
}

}  // namespace seekline::index_lanes
