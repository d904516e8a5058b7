// Weights as they lie in the file -> vectors of 32 bf16, in registers. Values are exact; block scales are
// applied by the caller.
//
// A step reads kBytes of a weight row and gives kVectors vectors. Decoding leaves the weights of a step in an
// order that costs no shuffles to restore: x is permuted once, in `prepare`, instead.
//   bf16  32 weights: vector 0, word w = weight w.
//   e4m3  64 weights: vector v, word w = weight 16 (w / 8) + 8 v + w % 8.
//   e2m1 128 weights: vector v, word w = weight 4 w + v.
// So a 32-bit lane of e2m1 sums 8 neighbours of one 32-block, and lanes 4b .. 4b + 3 belong to block b.
#pragma once

#include "formats/weight_view.h"
#include "kernels/simd_avx512.h"

namespace seekline::avx512bf16 {

struct E4M3Bytes {
  std::uint8_t high[128], low[128];
};

/// The two bytes of the bf16 of each e4m3 magnitude. Subnormals become normal bf16: the dot product would
/// take subnormal inputs as zero.
constexpr E4M3Bytes e4m3_bytes() {
  E4M3Bytes bytes{};
  for (unsigned code = 0; code < 128; ++code) {
    const unsigned exponent = code >> 3, mantissa = code & 7;
    unsigned bits = (exponent + 120) << 7 | mantissa << 4;
    if (exponent == 0) {
      const unsigned top = mantissa >= 4 ? 2 : mantissa >= 2 ? 1 : 0;
      bits = mantissa == 0 ? 0 : (118 + top) << 7 | ((mantissa << (7 - top)) & 0x7F);
    }
    if (code == 127) bits = 0x7FC0;
    bytes.high[code] = static_cast<std::uint8_t>(bits >> 8);
    bytes.low[code] = static_cast<std::uint8_t>(bits);
  }
  return bytes;
}

alignas(64) static constexpr E4M3Bytes kE4M3Bytes = e4m3_bytes();

struct E2M1Words {
  std::uint16_t bf16[32];
};

// vpermw looks at 5 bits of a word; the values stand there twice, so that the neighbour's bit does not
// matter.
constexpr E2M1Words e2m1_words() {
  constexpr std::uint16_t magnitudes[8] = {0, 0x3F00, 0x3F80, 0x3FC0, 0x4000, 0x4040, 0x4080, 0x40C0};
  E2M1Words words{};
  for (unsigned i = 0; i < 32; ++i)
    words.bf16[i] = static_cast<std::uint16_t>(magnitudes[i & 7] | (i & 8 ? 0x8000 : 0));
  return words;
}

alignas(64) static constexpr E2M1Words kE2M1Words = e2m1_words();

struct E2M1Values {
  float f32[16];
};

alignas(64) static constexpr E2M1Values kE2M1Values = {
    {0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f}};

struct BF16Step {
  static constexpr int kBytes = 64, kVectors = 1;

  SEEKLINE_MEMBER void expand(__m512i bytes, __m512i* v) const { v[0] = bytes; }
};

struct E4M3Step {
  static constexpr int kBytes = 64, kVectors = 2;
  __m512i high0, high1, low0, low1, sign;

  SEEKLINE_MEMBER E4M3Step() {
    high0 = _mm512_load_si512(kE4M3Bytes.high);
    high1 = _mm512_load_si512(kE4M3Bytes.high + 64);
    low0 = _mm512_load_si512(kE4M3Bytes.low);
    low1 = _mm512_load_si512(kE4M3Bytes.low + 64);
    sign = _mm512_set1_epi8(static_cast<char>(0x80));
  }
  SEEKLINE_MEMBER void expand(__m512i bytes, __m512i* v) const {
    __m512i high = _mm512_permutex2var_epi8(high0, bytes, high1);
    const __m512i low = _mm512_permutex2var_epi8(low0, bytes, low1);
    high = _mm512_ternarylogic_epi32(high, bytes, sign, 0xF8);  // high | (bytes & sign)
    v[0] = _mm512_unpacklo_epi8(low, high);
    v[1] = _mm512_unpackhi_epi8(low, high);
  }
};

struct E2M1Step {
  static constexpr int kBytes = 64, kVectors = 4;
  __m512i table;

  SEEKLINE_MEMBER E2M1Step() { table = _mm512_load_si512(kE2M1Words.bf16); }
  SEEKLINE_MEMBER void expand(__m512i bytes, __m512i* v) const {
    v[0] = _mm512_permutexvar_epi16(bytes, table);
    v[1] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bytes, 4), table);
    v[2] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bytes, 8), table);
    v[3] = _mm512_permutexvar_epi16(_mm512_srli_epi16(bytes, 12), table);
  }
};

/// Vectors of a prepared row, and of a decoded weight row, of k values. Padded to whole steps; e4m3 to two.
SEEKLINE_SIMD std::int64_t row_vectors(WeightKind kind, std::int64_t k) {
  return kind == WeightKind::kBF16 ? (k + 31) / 32 : (k + 127) / 128 * 4;
}

/// Adds `shift` (a power of two, in units of bf16's exponent) to every word that is neither 0 nor infinite
/// nor NaN.
SEEKLINE_SIMD __m512i scale_words(__m512i v, __m512i shift) {
  const __m512i exponent = _mm512_and_si512(v, _mm512_set1_epi16(0x7F80));
  const __mmask32 finite = _mm512_mask_cmpneq_epi16_mask(_mm512_test_epi16_mask(v, _mm512_set1_epi16(0x7FFF)),
                                                         exponent, _mm512_set1_epi16(0x7F80));
  return _mm512_mask_add_epi16(v, finite, v, shift);
}

/// The same for decoded e2m1, which has none of the latter.
SEEKLINE_SIMD __m512i scale_e2m1(__m512i v, __m512i shift) {
  return _mm512_mask_add_epi16(v, _mm512_test_epi16_mask(v, _mm512_set1_epi16(0x7FFF)), v, shift);
}

/// A ue8m0 code as such a shift. Codes stay within 2^-60 .. 2^60: `prepare` keeps |x| within 2^-64 .. 2^64,
/// so no product leaves the normal range and it does not matter which factor a scale is applied to.
SEEKLINE_SIMD std::int16_t scale_shift(std::uint8_t code) {
  const int power = static_cast<int>(code) - 127;
  return static_cast<std::int16_t>((power < -60 ? -60 : power > 60 ? 60 : power) * 128);
}

/// The code of scale b of a row of them; an f32 has it as its exponent.
SEEKLINE_SIMD std::uint8_t scale_code(const WeightView& w, const std::uint8_t* scales, std::int64_t b) {
  if (w.scale_kind == ScaleKind::kUE8M0) return scales[b];
  std::uint16_t top;
  __builtin_memcpy(&top, scales + 4 * b + 2, 2);
  return static_cast<std::uint8_t>(top >> 7);
}

/// How a row of blocks of e4m3 is multiplied: as if its scales were ue8m0, and its sums times this factor at
/// the end, or, where this is 0, with an f32 scale for each step. Files of `scale_fmt: ue8m0` hold f32 powers
/// of two, or (DeepSeek-V3.1's o_proj) such powers times one number.
SEEKLINE_SIMD float common_factor(const WeightView& w, const std::uint8_t* scales) {
  if (w.scale_kind != ScaleKind::kF32) return 1;
  std::uint32_t first = 0;
  for (std::int64_t b = 0; b < (w.cols + w.block_cols - 1) / w.block_cols; ++b) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, scales + 4 * b, 4);
    if (b == 0) first = bits;
    // Positive, within what scale_shift takes as it is, and of the first one's mantissa.
    if (bits < (127u - 60) << 23 || bits >= (127u + 60) << 23 || ((bits ^ first) & 0x7FFFFFu) != 0) return 0;
  }
  const std::uint32_t bits = (first & 0x7FFFFFu) | 127u << 23;
  float factor;
  __builtin_memcpy(&factor, &bits, 4);
  return factor;
}

/// Shift of an e4m3 step (64 columns from `col`): words 0..15 of both vectors lie in its first 32 columns.
SEEKLINE_SIMD __m512i e4m3_shift(const WeightView& w, const std::uint8_t* scales, std::int64_t col) {
  // Blocks are 32 or 128 wide; a division here would cost as much as the products of a row.
  const int log2_block = __builtin_ctz(static_cast<unsigned>(w.block_cols));
  const std::int64_t last = (w.cols - 1) >> log2_block;
  const std::int64_t b0 = col >> log2_block, b1 = (col + 32) >> log2_block;
  const __m256i s0 = _mm256_set1_epi16(scale_shift(scale_code(w, scales, b0)));
  const __m256i s1 = _mm256_set1_epi16(scale_shift(scale_code(w, scales, b1 > last ? last : b1)));
  return _mm512_inserti64x4(_mm512_castsi256_si512(s0), s1, 1);
}

/// Scale bytes of the 128 columns from `block` on (blocks of 32), with those past the row's end 127 (one).
SEEKLINE_SIMD std::uint32_t e2m1_scale_bytes(const std::uint8_t* scales, std::int64_t block,
                                             std::int64_t blocks) {
  std::uint32_t bytes = 0x7F7F7F7Fu;
  if (block + 4 <= blocks) {
    __builtin_memcpy(&bytes, scales + block, 4);
  } else {
    for (std::int64_t b = block; b < blocks; ++b) {
      const int at = static_cast<int>(b - block) * 8;
      bytes = (bytes & ~(0xFFu << at)) | static_cast<std::uint32_t>(scales[b]) << at;
    }
  }
  return bytes;
}

/// Shift of an e2m1 step by its four scale bytes: block b scales the words 8b .. 8b + 7 of all its vectors.
SEEKLINE_SIMD __m512i e2m1_shift(std::uint32_t bytes) {
  const __m512i spread = _mm512_inserti64x4(
      _mm512_castsi256_si512(_mm256_setr_m128i(_mm_set1_epi16(static_cast<short>(0x8000)),
                                               _mm_set1_epi16(static_cast<short>(0x8001)))),
      _mm256_setr_m128i(_mm_set1_epi16(static_cast<short>(0x8002)),
                        _mm_set1_epi16(static_cast<short>(0x8003))),
      1);
  const __m512i codes = _mm512_shuffle_epi8(_mm512_set1_epi32(static_cast<int>(bytes)), spread);
  const __m512i power = _mm512_sub_epi16(codes, _mm512_set1_epi16(127));
  const __m512i most = _mm512_set1_epi16(60), least = _mm512_set1_epi16(-60);
  return _mm512_slli_epi16(_mm512_max_epi16(_mm512_min_epi16(power, most), least), 7);
}

SEEKLINE_SIMD std::int64_t weight_row_bytes(const WeightView& w) {
  return w.kind == WeightKind::kBF16 ? w.cols * 2 : w.kind == WeightKind::kE4M3 ? w.cols : w.cols / 2;
}

}  // namespace seekline::avx512bf16
