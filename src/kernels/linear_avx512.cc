// Products of the AVX-512 level, and of the AVX512-BF16 level wherever nothing may be rounded: 16 lanes of
// f32.
#include "core/check.h"
#include "kernels/avx512.h"
#include "kernels/linear_f32.h"
#include "kernels/simd_avx512.h"
#include "kernels/transposed_f32.h"

namespace seekline::avx512 {
namespace {

struct V {
  using F = __m512;
  static constexpr int kLanes = 16, kTokens = 4;
  static constexpr bool kFewRegisters = false;
  SEEKLINE_MEMBER static F zero() { return _mm512_setzero_ps(); }
  SEEKLINE_MEMBER static F all(float x) { return _mm512_set1_ps(x); }
  SEEKLINE_MEMBER static F load(const float* p) { return _mm512_loadu_ps(p); }
  SEEKLINE_MEMBER static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  SEEKLINE_MEMBER static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  SEEKLINE_MEMBER static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  SEEKLINE_MEMBER static void reduce4(F a, F b, F c, F d, float* out) {
    _mm_storeu_ps(out, simd::reduce4(a, b, c, d));
  }
};

struct F32 {
  static constexpr int kBytes = 64, kWeights = 16, kVectors = 1;
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    take(0, _mm512_loadu_ps(p));
  }
};

struct F16 {
  static constexpr int kBytes = 32, kWeights = 16, kVectors = 1;
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    take(0, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
};

/// Even weights, then odd ones: the halves of 32-bit lanes.
struct BF16 {
  static constexpr int kBytes = 64, kWeights = 32, kVectors = 2;
  static constexpr int kScales = 0;
  static constexpr int place(int i) { return i % 2 * 16 + i / 2; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    const __m512i words = _mm512_loadu_si512(p);
    take(0, _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)));
    take(1, _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u)))));
  }
};

/// By way of f16, whose exponent range holds e4m3's subnormals: sign and code, one place down, are the value
/// / 256.
struct E4M3 {
  static constexpr int kBytes = 32, kWeights = 32, kVectors = 2;
  static constexpr int kScales = 1;
  static constexpr float kFactor = 256;
  static constexpr int place(int i) { return i; }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    __m512i words = _mm512_slli_epi16(_mm512_cvtepu8_epi16(bytes), 8);
    words = _mm512_and_si512(_mm512_srai_epi16(words, 1), _mm512_set1_epi16(static_cast<short>(0xBFFF)));
    take(0, _mm512_cvtph_ps(_mm512_castsi512_si256(words)));
    take(1, _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, 1)));
  }
  SEEKLINE_MEMBER __m512 spread(const float* scales) const { return _mm512_set1_ps(scales[0]); }
};

/// Lane d of vector j is weight 8 d + j: nibble j of a 32-bit lane.
struct E2M1 {
  static constexpr int kBytes = 64, kWeights = 128, kVectors = 8;
  static constexpr int kScales = 4;
  static constexpr float kFactor = 1;
  static constexpr int place(int i) { return i % 8 * 16 + i / 8; }
  __m512 table;
  SEEKLINE_MEMBER E2M1() {
    table = _mm512_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f, -0.0f, -0.5f, -1.0f, -1.5f, -2.0f,
                           -3.0f, -4.0f, -6.0f);
  }
  template <class Take>
  SEEKLINE_MEMBER void decode(const std::uint8_t* p, Take take) const {
    const __m512i nibbles = _mm512_loadu_si512(p);
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j)  // vpermps looks at the lowest 4 bits
      take(j, _mm512_permutexvar_ps(_mm512_srli_epi32(nibbles, static_cast<unsigned>(4 * j)), table));
  }
  SEEKLINE_MEMBER __m512 spread(const float* scales) const {
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return _mm512_permutexvar_ps(lane, _mm512_broadcast_f32x4(_mm_loadu_ps(scales)));
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
    quantize(quantizer, x + first, count, values);
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

}  // namespace seekline::avx512
