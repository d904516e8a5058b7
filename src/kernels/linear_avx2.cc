// Products of the AVX2 level, in f32 for both arithmetics: vectors of 8 lanes (kernels/linear_f32.h).
#include "core/check.h"
#include "kernels/avx2.h"
#include "kernels/linear_f32.h"
#include "kernels/simd_avx2.h"
#include "kernels/transposed_f32.h"

namespace seekline::avx2 {
namespace {

using linear_f32::Row;

struct V {
  using F = __m256;
  static constexpr int kLanes = 8, kTokens = 2;
  static constexpr bool kFewRegisters = true;
  SEEKLINE_MEMBER static F zero() { return _mm256_setzero_ps(); }
  SEEKLINE_MEMBER static F all(float x) { return _mm256_set1_ps(x); }
  SEEKLINE_MEMBER static F load(const float* p) { return _mm256_loadu_ps(p); }
  SEEKLINE_MEMBER static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  SEEKLINE_MEMBER static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  SEEKLINE_MEMBER static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  SEEKLINE_MEMBER static void reduce4(F a, F b, F c, F d, float* out) {
    _mm_storeu_ps(out, simd8::reduce4(a, b, c, d));
  }
};

SEEKLINE_SIMD __m256i load256(const std::uint8_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
SEEKLINE_SIMD __m128i load128(const std::uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}

struct F32 {
  static constexpr int kBytes = 64, kWeights = 16, kVectors = 2;
  static constexpr bool kScaled = false;
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, __m256* v) const {
    v[0] = _mm256_castsi256_ps(load256(p));
    v[1] = _mm256_castsi256_ps(load256(p + 32));
  }
};

struct F16 {
  static constexpr int kBytes = 32, kWeights = 16, kVectors = 2;
  static constexpr bool kScaled = false;
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, __m256* v) const {
    v[0] = _mm256_cvtph_ps(load128(p));
    v[1] = _mm256_cvtph_ps(load128(p + 16));
  }
};

/// Even weights, then odd ones, of each 16: the halves of 32-bit lanes.
struct BF16 {
  static constexpr int kBytes = 64, kWeights = 32, kVectors = 4;
  static constexpr bool kScaled = false;
  static constexpr int place(int i) { return i / 16 * 16 + i % 2 * 8 + i % 16 / 2; }
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, __m256* v) const {
    for (int h = 0; h < 2; ++h) {
      const __m256i words = load256(p + 32 * h);
      v[2 * h] = _mm256_castsi256_ps(_mm256_slli_epi32(words, 16));
      v[2 * h + 1] =
          _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
    }
  }
};

/// By way of f16: sign and code, one place down, are the value / 256.
struct E4M3 {
  static constexpr int kBytes = 32, kWeights = 32, kVectors = 4;
  static constexpr bool kScaled = true;
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, __m256* v) const {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) {
      __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load128(p + 16 * h)), 8);
      words = _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
      v[2 * h] = _mm256_cvtph_ps(_mm256_castsi256_si128(words));
      v[2 * h + 1] = _mm256_cvtph_ps(_mm256_extracti128_si256(words, 1));
    }
  }
  SEEKLINE_MEMBER __m256 scale(const WeightView& w, const Row& row, std::int64_t col) const {
    return _mm256_set1_ps(256.0f * linear_f32::scale_at(w, row, col));
  }
};

/// Codes look up the two bytes of their bf16, which are put together to words; a word is the upper half of an
/// f32. Bytes 16 h + 8 u + 2 l + p of a step (l < 4, p < 2) hold weights of block h: their nibble n is lane 4
/// h + l of vector 4 n + 2 u + p.
struct E2M1 {
  static constexpr int kBytes = 32, kWeights = 64, kVectors = 8;
  static constexpr bool kScaled = true;
  static constexpr int place(int i) {
    const int byte = i / 2, h = byte / 16, u = byte % 16 / 8, l = byte % 8 / 2, p = byte % 2;
    return (4 * (i % 2) + 2 * u + p) * 8 + 4 * h + l;
  }
  __m256i high, low;
  SEEKLINE_MEMBER E2M1() {
    high = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40, -0x80,
                                                     -0x41, -0x41, -0x41, -0x40, -0x40, -0x40, -0x40));
    low = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40, 0, 0, -0x80, -0x40, 0, 0x40, -0x80, -0x40));
  }
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, __m256* v) const {
    const __m256i bytes = load256(p), nibble = _mm256_set1_epi8(0x0F);
    const __m256i codes[2] = {_mm256_and_si256(bytes, nibble),
                              _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)};
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      const __m256i h = _mm256_shuffle_epi8(high, codes[n]), l = _mm256_shuffle_epi8(low, codes[n]);
      const __m256i words[2] = {_mm256_unpacklo_epi8(l, h), _mm256_unpackhi_epi8(l, h)};
#pragma GCC unroll 2
      for (int u = 0; u < 2; ++u) {
        v[4 * n + 2 * u] = _mm256_castsi256_ps(_mm256_slli_epi32(words[u], 16));
        v[4 * n + 2 * u + 1] =
            _mm256_castsi256_ps(_mm256_and_si256(words[u], _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
      }
    }
  }
  SEEKLINE_MEMBER __m256 scale(const WeightView& w, const Row& row, std::int64_t col) const {
    if (col + kWeights <= w.cols) {  // both bytes at once, where neither is 2^-127
      std::uint16_t codes;
      __builtin_memcpy(&codes, row.scales + (col >> 5), 2);
      if ((codes & 0xFF) != 0 && codes >> 8 != 0) {
        const __m128i spread = _mm_shuffle_epi8(
            _mm_cvtsi32_si128(codes), _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
        return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu8_epi32(spread), 23));
      }
    }
    return _mm256_set_m128(_mm_set1_ps(linear_f32::scale_at(w, row, col + 32)),
                           _mm_set1_ps(linear_f32::scale_at(w, row, col)));
  }
};

}  // namespace

std::int64_t prepared_bytes(WeightKind, Arithmetic, std::int64_t k) { return linear_f32::padded(k) * 4; }

void prepare(WeightKind kind, Arithmetic, BlockQuantizer quantizer, const float* x, std::int64_t k,
             std::uint8_t* out) {
  auto* row = reinterpret_cast<float*>(out);
  for (std::int64_t first = 0; first < k; first += linear_f32::kLongestStep) {
    const std::int64_t count = k - first < linear_f32::kLongestStep ? k - first : linear_f32::kLongestStep;
    float values[linear_f32::kLongestStep];
    quantize_values(quantizer, {x + first, static_cast<std::size_t>(count)},
                    {values, static_cast<std::size_t>(count)});
    switch (kind) {
      case WeightKind::kBF16:
        linear_f32::permute<BF16>(values, count, row + first);
        break;
      case WeightKind::kE2M1:
        linear_f32::permute<E2M1>(values, count, row + first);
        break;
      default:
        linear_f32::permute<E4M3>(values, count, row + first);
    }
  }
}

std::int64_t matmul_scratch_bytes(std::int64_t k) { return linear_f32::tile_bytes(k); }

void matmul(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind == ScaleKind::kNone || m.w.block_cols == 32 || m.w.block_cols == 128,
                 "scales lie on 32 or 128 columns");
  SEEKLINE_CHECK(m.w.kind != WeightKind::kE2M1 || m.w.block_cols == 32, "e2m1 scales lie on 32 columns");
  switch (m.w.kind) {
    case WeightKind::kF32:
      return linear_f32::run<V, F32>(m);
    case WeightKind::kF16:
      return linear_f32::run<V, F16>(m);
    case WeightKind::kBF16:
      return linear_f32::run<V, BF16>(m);
    case WeightKind::kE4M3:
      return linear_f32::run<V, E4M3>(m);
    case WeightKind::kE2M1:
      return linear_f32::run<V, E2M1>(m);
  }
}

std::int64_t transposed_scratch_bytes(std::int64_t rows, std::int64_t, std::int64_t) {
  return transposed_f32::scratch_bytes(rows);
}

void matmul_transposed(const TransposedMatmul& m) {
  switch (m.w.kind) {
    case WeightKind::kF32:
      return transposed_f32::run<V, F32>(m);
    case WeightKind::kF16:
      return transposed_f32::run<V, F16>(m);
    case WeightKind::kBF16:
      return transposed_f32::run<V, BF16>(m);
    case WeightKind::kE4M3:
      return transposed_f32::run<V, E4M3>(m);
    case WeightKind::kE2M1:
      return transposed_f32::run<V, E2M1>(m);
  }
}

}  // namespace seekline::avx2
