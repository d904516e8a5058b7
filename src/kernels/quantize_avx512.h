// Block quantizers in 16 lanes: what formats/quantizers.h says, value by value, bit for bit.
#pragma once

#include "formats/quantizers.h"
#include "kernels/simd_avx512.h"

namespace seekline::simd {

/// Codes and values of one vector of a block.
struct Quantized {
  __m512i codes;  ///< one in each 32-bit lane
  __m512 grid;    ///< the value of the code, before the scale
};

/// v rounded to e4m3, saturating; ties to even.
SEEKLINE_SIMD Quantized round_e4m3(__m512 v) {
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN));
  const __m512 a = _mm512_min_ps(_mm512_set1_ps(448.0f), _mm512_abs_ps(v));
  // Adding and taking away 1.5 * 2^23 steps of the grid rounds to it; the step is 2^(e - 3), and 2^-9 below
  // 2^-6.
  const __m512i exponent = _mm512_max_epi32(
      _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7F800000)), _mm512_set1_epi32(121 << 23));
  const __m512 magic = _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_add_epi32(exponent, _mm512_set1_epi32(20 << 23)), _mm512_set1_epi32(0x400000)));
  const __m512 r = _mm512_sub_ps(_mm512_add_ps(a, magic), magic);
  const __m512i normal =
      _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(r), 20), _mm512_set1_epi32(120 << 3));
  const __m512i subnormal = _mm512_cvtps_epi32(_mm512_mul_ps(r, _mm512_set1_ps(512.0f)));
  const __mmask16 small = _mm512_cmp_ps_mask(r, _mm512_set1_ps(0x1p-6f), _CMP_LT_OQ);
  const __m512i code = _mm512_mask_blend_epi32(small, normal, subnormal);
  return {_mm512_or_si512(code, _mm512_srli_epi32(sign, 24)),
          _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(r), sign))};
}

/// v rounded to e2m1, saturating; ties to even.
SEEKLINE_SIMD Quantized round_e2m1(__m512 v) {
  const __m512i sign = _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(INT32_MIN));
  const __m512 a = _mm512_min_ps(_mm512_set1_ps(6.0f), _mm512_abs_ps(v));
  // The step is 2^(e - 1), and 1/2 below 1.
  const __m512i exponent = _mm512_max_epi32(
      _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7F800000)), _mm512_set1_epi32(127 << 23));
  const __m512 magic = _mm512_castsi512_ps(
      _mm512_or_si512(_mm512_add_epi32(exponent, _mm512_set1_epi32(22 << 23)), _mm512_set1_epi32(0x400000)));
  const __m512 r = _mm512_sub_ps(_mm512_add_ps(a, magic), magic);
  // 1 has code 2, and each half octave is a step: the top mantissa bit joins the exponent. 0 and 1/2 are r
  // * 2.
  const __m512i normal =
      _mm512_sub_epi32(_mm512_srli_epi32(_mm512_castps_si512(r), 22), _mm512_set1_epi32(127 * 2 - 2));
  const __m512i subnormal = _mm512_cvtps_epi32(_mm512_mul_ps(r, _mm512_set1_ps(2.0f)));
  const __mmask16 small = _mm512_cmp_ps_mask(r, _mm512_set1_ps(1.0f), _CMP_LT_OQ);
  const __m512i code = _mm512_mask_blend_epi32(small, normal, subnormal);
  return {_mm512_or_si512(code, _mm512_srli_epi32(sign, 28)),
          _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(r), sign))};
}

struct BlockScale {
  float scale;
  std::uint8_t code;  ///< ue8m0 or e4m3; 0 where the scale is f32
};

SEEKLINE_SIMD std::uint32_t float_bits(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}
SEEKLINE_SIMD float bits_float(std::uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/// The smallest power of two that is >= x; x normal.
SEEKLINE_SIMD BlockScale power_of_two(float x) {
  const std::uint32_t exponent = (float_bits(x) + 0x7FFFFFu) >> 23;
  return {bits_float(exponent << 23), static_cast<std::uint8_t>(exponent)};
}

/// The scale of a block whose largest magnitude is `a`. Floors are those of the definitions; all give normal
/// scales.
SEEKLINE_SIMD BlockScale block_scale(BlockQuantizer quantizer, float a) {
  const auto at_least = [](float x, float floor) __attribute__((always_inline)) {
    return x > floor ? x : floor;
  };
  switch (quantizer) {
    case BlockQuantizer::kFp8Block128F32:
      return {at_least(a, 1e-4f) * (1.0f / 448.0f), 0};
    case BlockQuantizer::kFp4Block32:
      return power_of_two(at_least(a, 6 * 0x1p-126f) / 6.0f);
    case BlockQuantizer::kFp4Block16: {
      const Quantized q = round_e4m3(_mm512_set1_ps(at_least(a, 6 * 0x1p-9f) / 6.0f));
      return {_mm512_cvtss_f32(q.grid),
              static_cast<std::uint8_t>(_mm_cvtsi128_si32(_mm512_castsi512_si128(q.codes)))};
    }
    default:
      return power_of_two(at_least(a, 1e-4f) / 448.0f);
  }
}

SEEKLINE_SIMD bool is_fp4(BlockQuantizer quantizer) {
  return quantizer == BlockQuantizer::kFp4Block32 || quantizer == BlockQuantizer::kFp4Block16;
}

/// The largest magnitude of n values, n <= 128.
SEEKLINE_SIMD float largest_magnitude(const float* in, std::int64_t n) {
  __m512 a = _mm512_setzero_ps();
  for (std::int64_t i = 0; i < n; i += 16)
    a = _mm512_max_ps(a, _mm512_abs_ps(_mm512_maskz_loadu_ps(first16(n - i), in + i)));
  return _mm512_reduce_max_ps(a);
}

/// One vector of a block with this scale. A power of two divides like its reciprocal multiplies, so one
/// division does for every quantizer.
SEEKLINE_SIMD Quantized quantize_lanes(BlockQuantizer quantizer, __m512 v, float scale) {
  const __m512 scaled = _mm512_div_ps(v, _mm512_set1_ps(scale));
  return is_fp4(quantizer) ? round_e2m1(scaled) : round_e4m3(scaled);
}

}  // namespace seekline::simd
