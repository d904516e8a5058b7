// Products of the AVX2 level, in f32 for both arithmetics: vectors of 8 lanes (kernels/linear_f32.h).
#include "core/check.h"
#include "kernels/avx2.h"
#include "kernels/linear_f32.h"
#include "kernels/simd_avx2.h"
#include "kernels/transposed_f32.h"

namespace seekline::avx2 {
namespace {

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
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    take(0, _mm256_castsi256_ps(load256(p)));
    take(1, _mm256_castsi256_ps(load256(p + 32)));
  }
};

struct F16 {
  static constexpr int kBytes = 32, kWeights = 16, kVectors = 2;
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    take(0, _mm256_cvtph_ps(load128(p)));
    take(1, _mm256_cvtph_ps(load128(p + 16)));
  }
};

/// Words of bf16 as vectors i and i + 1: the even ones, then the odd ones.
template <class Take>
SEEKLINE_SIMD void take_words(__m256i words, int i, Take take) {
  take(i, _mm256_castsi256_ps(_mm256_slli_epi32(words, 16)));
  take(i + 1, _mm256_castsi256_ps(_mm256_and_si256(words, _mm256_set1_epi32(static_cast<int>(0xFFFF0000u)))));
}

/// Even weights, then odd ones, of each 16: the halves of 32-bit lanes.
struct BF16 {
  static constexpr int kBytes = 64, kWeights = 32, kVectors = 4;
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i / 16 * 16 + i % 2 * 8 + i % 16 / 2; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
#pragma GCC unroll 2
    for (int h = 0; h < 2; ++h) take_words(load256(p + 32 * h), 2 * h, take);
  }
};

/// By way of f16: sign and code, one place down, are the value / 256. Bytes are put above zeros to words,
/// first bytes 0 to 7 and 16 to 23, then the others. A conversion of a register's half takes a shuffle, as
/// taking out its upper half does; one from memory takes neither, so upper halves go that way.
struct E4M3 {
  static constexpr int kBytes = 32, kWeights = 32, kVectors = 4;
  static constexpr int kScales = 1;
  static constexpr float kFactor = 256;
  static constexpr int place(int i) { return i / 8 % 2 * 16 + i / 16 * 8 + i % 8; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    const auto place_down = [](__m256i words) __attribute__((always_inline)) {
      return _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
    };
    const __m256i bytes = load256(p), zero = _mm256_setzero_si256();
    const __m256i words[2] = {place_down(_mm256_unpacklo_epi8(zero, bytes)),
                              place_down(_mm256_unpackhi_epi8(zero, bytes))};
    alignas(16) std::uint8_t upper[32];
    for (int i = 0; i < 2; ++i)
      _mm_store_si128(reinterpret_cast<__m128i*>(upper) + i, _mm256_extracti128_si256(words[i], 1));
    __asm__("" : "+m"(upper));  // or g++ shuffles after all
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      take(2 * i, _mm256_cvtph_ps(_mm256_castsi256_si128(words[i])));
      take(2 * i + 1, _mm256_cvtph_ps(load128(upper + 16 * i)));
    }
  }
  SEEKLINE_MEMBER __m256 spread(const float* scales) const { return _mm256_set1_ps(scales[0]); }
};

/// Codes look up the two bytes of their bf16, which are put together to words; a word is the upper half of an
/// f32. Bytes 16 h + 8 u + 2 l + p of a step (l < 4, p < 2) hold weights of block h: their nibble n is lane 4
/// h + l of vector 4 n + 2 u + p.
struct E2M1 {
  static constexpr int kBytes = 32, kWeights = 64, kVectors = 8;
  static constexpr int kScales = 2;
  static constexpr float kFactor = 1;
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
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    const __m256i bytes = load256(p), nibble = _mm256_set1_epi8(0x0F);
    const __m256i codes[2] = {_mm256_and_si256(bytes, nibble),
                              _mm256_and_si256(_mm256_srli_epi16(bytes, 4), nibble)};
#pragma GCC unroll 2
    for (int n = 0; n < 2; ++n) {
      const __m256i h = _mm256_shuffle_epi8(high, codes[n]), l = _mm256_shuffle_epi8(low, codes[n]);
      take_words(_mm256_unpacklo_epi8(l, h), 4 * n, take);
      take_words(_mm256_unpackhi_epi8(l, h), 4 * n + 2, take);
    }
  }
  SEEKLINE_MEMBER __m256 spread(const float* scales) const {
    double both;  // two f32 to all quarters, then each to its half
    __builtin_memcpy(&both, scales, 8);
    return _mm256_permutevar_ps(_mm256_castpd_ps(_mm256_set1_pd(both)),
                                _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
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
      case WeightKind::kE4M3:
        linear_f32::permute<E4M3>(values, count, row + first);
        break;
      default:
        linear_f32::permute<F32>(values, count, row + first);
    }
  }
}

std::int64_t matmul_scratch_bytes(std::int64_t k) { return linear_f32::scratch_bytes(k); }

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
