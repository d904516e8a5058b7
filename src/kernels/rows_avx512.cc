// Cache rows and block quantizers in 16 lanes; bytes and values are those of formats/rows.h.
#include "formats/rows.h"

#include "kernels/avx512.h"
#include "kernels/quantize_avx512.h"

namespace seekline::avx512 {
namespace {

using simd::first16;

/// One block -> codes and scale bytes.
SEEKLINE_SIMD void encode_block(const RowLayout& layout, const float* in, int first, int count, int index,
                                std::uint8_t* data, std::uint8_t* scale) {
  const simd::BlockScale s = simd::block_scale(layout.quantizer, simd::largest_magnitude(in + first, count));
  if (layout.block_scale_bytes == 4) {
    __builtin_memcpy(scale + 4 * index, &s.scale, 4);
  } else {
    scale[index] = s.code;
  }
  for (int i = 0; i < count; i += 16) {
    const __mmask16 m = first16(count - i);
    const simd::Quantized q =
        simd::quantize_lanes(layout.quantizer, _mm512_maskz_loadu_ps(m, in + first + i), s.scale);
    if (layout.code_bits == 8) {
      _mm512_mask_cvtepi32_storeu_epi8(data + first + i, m, q.codes);
    } else {
      // Neighbours share a byte: the odd lane moves down and joins, 8 bytes come out.
      const __m512i pairs = _mm512_or_si512(q.codes, _mm512_srli_epi64(q.codes, 28));
      const __m128i bytes = _mm512_cvtepi64_epi8(pairs);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(data + (first + i) / 2), bytes);
    }
  }
}

SEEKLINE_SIMD float scale_of(const RowLayout& layout, const std::uint8_t* scale, int index) {
  float value;
  if (layout.block_scale_bytes == 4) {
    __builtin_memcpy(&value, scale + 4 * index, 4);
    return value;
  }
  const std::uint32_t code = scale[index];
  if (layout.quantizer != BlockQuantizer::kFp4Block16) {
    if (code == 255) return __builtin_nanf("");
    return simd::power_of(code);
  }
  const std::uint32_t sign = (code & 0x80) << 24;
  if ((code & 0x7F) == 0x7F) return simd::bits_float(sign | 0x7FF00000u);
  if ((code & 0x78) == 0) return (sign ? -1.0f : 1.0f) * static_cast<float>(code & 7) * 0x1p-9f;
  return simd::bits_float(sign | (((code & 0x7F) << 20) + (120u << 23)));
}

/// 16 e4m3 codes; through f16, where e4m3's subnormals are subnormals too, and the value / 256.
SEEKLINE_SIMD __m512 decode_e4m3(__m128i codes) {
  const __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(codes), 8);
  const __m256i half =
      _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
  const __m512 value = _mm512_mul_ps(_mm512_cvtph_ps(half), _mm512_set1_ps(256.0f));
  const __mmask16 nan = _mm_cmpeq_epi8_mask(_mm_and_si128(codes, _mm_set1_epi8(0x7F)), _mm_set1_epi8(0x7F));
  const __m512i signed_nan =
      _mm512_or_si512(_mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(INT32_MIN)),
                      _mm512_set1_epi32(0x7FF00000));
  return _mm512_mask_blend_ps(nan, value, _mm512_castsi512_ps(signed_nan));
}

/// 16 e2m1 codes from 8 bytes, even channels in the low nibbles.
SEEKLINE_SIMD __m512 decode_e2m1(const std::uint8_t* p) {
  const __m512 table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f,
                                      -1.5f, -2.0f, -3.0f, -4.0f, -6.0f);
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  const __m128i nibbles = _mm_unpacklo_epi8(bytes, _mm_srli_epi16(bytes, 4));
  return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(nibbles), table);
}

}  // namespace

void quantize(BlockQuantizer quantizer, const float* in, std::int64_t n, float* out) {
  if (quantizer == BlockQuantizer::kNone) {
    for (std::int64_t i = 0; i < n; i += 16) {
      const __mmask16 m = first16(n - i);
      _mm512_mask_storeu_ps(out + i, m, _mm512_maskz_loadu_ps(m, in + i));
    }
    return;
  }
  const int block = quantizer_block(quantizer);
  for (std::int64_t first = 0; first < n; first += block) {
    const std::int64_t count = n - first < block ? n - first : block;
    const simd::BlockScale s = simd::block_scale(quantizer, simd::largest_magnitude(in + first, count));
    for (std::int64_t i = first; i < first + count; i += 16) {
      const __mmask16 m = first16(first + count - i);
      const simd::Quantized q = simd::quantize_lanes(quantizer, _mm512_maskz_loadu_ps(m, in + i), s.scale);
      _mm512_mask_storeu_ps(out + i, m, _mm512_mul_ps(q.grid, _mm512_set1_ps(s.scale)));
    }
  }
}

void encode_row(const RowFormat& format, const float* values, std::uint8_t* data, std::uint8_t* scale) {
  const RowLayout layout = row_layout(format);
  if (layout.blocks == 0 && layout.plain_bytes == 4) {
    __builtin_memcpy(data, values, static_cast<std::size_t>(layout.plain) * 4);
    return;
  }
  __builtin_memset(scale, 0, static_cast<std::size_t>(format.scale_bytes()));
  const int block = quantizer_block(layout.quantizer);
  for (int b = 0; b < layout.blocks; ++b) {
    const int first = b * block, left = layout.coded - first;
    encode_block(layout, values, first, left < block ? left : block, b, data, scale);
  }
  std::uint8_t* plain = data + layout.code_bytes();
  for (int i = 0; i < layout.plain; i += 16) {
    const __mmask16 m = first16(layout.plain - i);
    const __m512i bits = _mm512_castps_si512(_mm512_maskz_loadu_ps(m, values + layout.coded + i));
    // Nearest even in integers: the conversion instruction would flush subnormals. NaN is made quiet.
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    __m512i rounded =
        _mm512_srli_epi32(_mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7FFF))), 16);
    const __mmask16 nan =
        _mm512_cmp_ps_mask(_mm512_castsi512_ps(bits), _mm512_castsi512_ps(bits), _CMP_UNORD_Q);
    rounded = _mm512_mask_or_epi32(rounded, nan, _mm512_srli_epi32(bits, 16), _mm512_set1_epi32(0x40));
    _mm512_mask_cvtepi32_storeu_epi16(plain + 2 * i, m, rounded);
  }
}

void decode_channels(const RowLayout& layout, const std::uint8_t* data, const std::uint8_t* scale, int first,
                     int count, float* out) {
  const int block = quantizer_block(layout.quantizer);
  const int end = first + count, coded_end = end < layout.coded ? end : layout.coded;
  int i = first;
  while (i < coded_end) {
    const int b = i / block, block_end = (b + 1) * block < coded_end ? (b + 1) * block : coded_end;
    const __m512 s = _mm512_set1_ps(scale_of(layout, scale, b));
    for (; i < block_end; i += 16) {
      const __mmask16 m = first16(block_end - i);
      const __m512 v =
          layout.code_bits == 8 ? decode_e4m3(_mm_maskz_loadu_epi8(m, data + i)) : decode_e2m1(data + i / 2);
      _mm512_mask_storeu_ps(out + (i - first), m, _mm512_mul_ps(v, s));
    }
    i = block_end;
  }
  const std::uint8_t* plain = data + layout.code_bytes() + (i - layout.coded) * layout.plain_bytes;
  for (; i < end; i += 16, plain += 16 * layout.plain_bytes) {
    const __mmask16 m = first16(end - i);
    const __m512i bits =
        layout.plain_bytes == 4
            ? _mm512_maskz_loadu_epi32(m, plain)
            : _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(m, plain)), 16);
    _mm512_mask_storeu_ps(out + (i - first), m, _mm512_castsi512_ps(bits));
  }
}

void decode_row(const RowFormat& format, const std::uint8_t* data, const std::uint8_t* scale, float* out) {
  decode_channels(row_layout(format), data, scale, 0, format.width, out);
}

}  // namespace seekline::avx512
