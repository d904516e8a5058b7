// Cache rows -> f32, 8 values at a time; values are those of formats/rows.h.
#pragma once

#include "formats/rows.h"
#include "kernels/simd_avx2.h"
#include "kernels/table.h"

namespace seekline::rows8 {

SEEKLINE_SIMD float bits_float(std::uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

SEEKLINE_SIMD float scale_of(const RowLayout& layout, const std::uint8_t* scale, int index) {
  if (layout.block_scale_bytes == 4) {
    float value;
    __builtin_memcpy(&value, scale + 4 * index, 4);
    return value;
  }
  const std::uint32_t code = scale[index];
  if (layout.quantizer != BlockQuantizer::kFp4Block16) {
    if (code == 255) return __builtin_nanf("");
    return simd::power_of(code);
  }
  const std::uint32_t sign = (code & 0x80) << 24;
  if ((code & 0x7F) == 0x7F) return bits_float(sign | 0x7FF00000u);
  if ((code & 0x78) == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(code & 7) * 0x1p-9f;
  return bits_float(sign | (((code & 0x7F) << 20) + (120u << 23)));
}

/// 8 e4m3 codes, by way of f16 (see rows_avx512.cc).
SEEKLINE_SIMD __m256 decode_e4m3(__m128i codes) {
  __m128i words = _mm_slli_epi16(_mm_cvtepu8_epi16(codes), 8);
  const __m128i magnitude = _mm_and_si128(words, _mm_set1_epi16(0x7F00));
  const __m256i nan = _mm256_cvtepi16_epi32(_mm_cmpeq_epi16(magnitude, _mm_set1_epi16(0x7F00)));
  words = _mm_and_si128(_mm_srai_epi16(words, 1), _mm_set1_epi16(static_cast<short>(0xBFFF)));
  const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(words), _mm256_set1_ps(256.0f));
  return _mm256_or_ps(value, _mm256_castsi256_ps(_mm256_and_si256(nan, _mm256_set1_epi32(0x7FF00000))));
}

/// 8 e2m1 codes from 4 bytes, even channels in the low nibbles: the two bytes of their bf16 are looked up.
SEEKLINE_SIMD __m256 decode_e2m1(const std::uint8_t* p) {
  const __m128i high = _mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -0x80, -0x41, -0x41, -0x41,
                                     -0x40, -0x40, -0x40, -0x40);
  const __m128i low =
      _mm_setr_epi8(0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40);
  int word;
  __builtin_memcpy(&word, p, 4);
  const __m128i bytes = _mm_cvtsi32_si128(word);
  const __m128i codes =
      _mm_and_si128(_mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4)), _mm_set1_epi8(0x0F));
  const __m128i words = _mm_unpacklo_epi8(_mm_shuffle_epi8(low, codes), _mm_shuffle_epi8(high, codes));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
}

/// Up to 8 bytes; what lies past `count` is 0.
SEEKLINE_SIMD __m128i load_bytes(const std::uint8_t* p, int count) {
  std::uint64_t word = 0;
  __builtin_memcpy(&word, p, static_cast<std::size_t>(count < 8 ? count : 8));
  return _mm_cvtsi64_si128(static_cast<long long>(word));
}

/// Channels [first, first + count) of a row to out, whole vectors are written; `first` is a multiple of 8
/// where the codes have 4 bits.
SEEKLINE_SIMD void decode_channels(const RowLayout& layout, const RowRef& row, int first, int count,
                                   float* out) {
  const int block = quantizer_block(layout.quantizer);
  const int end = first + count, coded_end = end < layout.coded ? end : layout.coded;
  int i = first;
  while (i < coded_end) {
    const int b = i / block, block_end = (b + 1) * block < coded_end ? (b + 1) * block : coded_end;
    const __m256 s = _mm256_set1_ps(scale_of(layout, row.scale, b));
    for (; i < block_end; i += 8) {
      const __m256 v = layout.code_bits == 8 ? decode_e4m3(load_bytes(row.data + i, block_end - i))
                                             : decode_e2m1(row.data + i / 2);
      _mm256_storeu_ps(out + (i - first), _mm256_mul_ps(v, s));
    }
    i = block_end;
  }
  const std::uint8_t* plain = row.data + layout.code_bytes() + (i - layout.coded) * layout.plain_bytes;
  for (; i < end; i += 8, plain += 8 * layout.plain_bytes) {
    const int n = end - i < 8 ? end - i : 8;
    alignas(32) std::uint8_t bytes[32] = {};
    const std::uint8_t* from = plain;
    if (n < 8) {
      __builtin_memcpy(bytes, plain,
                       static_cast<std::size_t>(n) * static_cast<std::size_t>(layout.plain_bytes));
      from = bytes;
    }
    const __m256i bits =
        layout.plain_bytes == 4
            ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))
            : _mm256_slli_epi32(
                  _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16);
    _mm256_storeu_ps(out + (i - first), _mm256_castsi256_ps(bits));
  }
}

}  // namespace seekline::rows8
