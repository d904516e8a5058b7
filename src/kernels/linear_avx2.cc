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
  SEEKLINE_MEMBER static F zero() { return _mm256_setzero_ps(); }
  SEEKLINE_MEMBER static F all(float x) { return _mm256_set1_ps(x); }
  SEEKLINE_MEMBER static F load(const float* p) { return _mm256_loadu_ps(p); }
  SEEKLINE_MEMBER static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
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
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const WeightView&, const Row&, std::int64_t, const std::uint8_t* p,
                              __m256* v) const {
    v[0] = _mm256_castsi256_ps(load256(p));
    v[1] = _mm256_castsi256_ps(load256(p + 32));
  }
};

struct F16 {
  static constexpr int kBytes = 32, kWeights = 16, kVectors = 2;
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const WeightView&, const Row&, std::int64_t, const std::uint8_t* p,
                              __m256* v) const {
    v[0] = _mm256_cvtph_ps(load128(p));
    v[1] = _mm256_cvtph_ps(load128(p + 16));
  }
};

/// Even weights, then odd ones, of each 16: the halves of 32-bit lanes.
struct BF16 {
  static constexpr int kBytes = 64, kWeights = 32, kVectors = 4;
  static constexpr int place(int i) { return i / 16 * 16 + i % 2 * 8 + i % 16 / 2; }
  SEEKLINE_MEMBER void decode(const WeightView&, const Row&, std::int64_t, const std::uint8_t* p,
                              __m256* v) const {
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
  static constexpr int place(int i) { return i; }
  SEEKLINE_MEMBER void decode(const WeightView& w, const Row& row, std::int64_t col, const std::uint8_t* p,
                              __m256* v) const {
    const __m256 scale = _mm256_set1_ps(linear_f32::scale_at(w, row, col)), up = _mm256_set1_ps(256.0f);
    for (int h = 0; h < 2; ++h) {
      __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(load128(p + 16 * h)), 8);
      words = _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(static_cast<short>(0xBFFF)));
      v[2 * h] = _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(words)), up), scale);
      v[2 * h + 1] =
          _mm256_mul_ps(_mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(words, 1)), up), scale);
    }
  }
};

/// Lane d of vector j is weight 8 d + j: nibble j of a 32-bit lane. Its lowest three bits look up the
/// magnitude, its sign chooses the sign of the scale.
struct E2M1 {
  static constexpr int kBytes = 32, kWeights = 64, kVectors = 8;
  static constexpr int place(int i) { return i % 8 * 8 + i / 8; }
  __m256 table;
  SEEKLINE_MEMBER E2M1() { table = _mm256_setr_ps(0.0f, 0.5f, 1.0f, 1.5f, 2.0f, 3.0f, 4.0f, 6.0f); }
  SEEKLINE_MEMBER void decode(const WeightView& w, const Row& row, std::int64_t col, const std::uint8_t* p,
                              __m256* v) const {
    const __m256i nibbles = load256(p);
    const __m256 scale = _mm256_set_m128(_mm_set1_ps(linear_f32::scale_at(w, row, col + 32)),
                                         _mm_set1_ps(linear_f32::scale_at(w, row, col)));
    const __m256 negative = _mm256_xor_ps(scale, _mm256_set1_ps(-0.0f));
#pragma GCC unroll 8
    for (int j = 0; j < 8; ++j) {
      const __m256 magnitude = _mm256_permutevar8x32_ps(table, _mm256_srli_epi32(nibbles, 4 * j));
      const __m256 sign = _mm256_castsi256_ps(_mm256_slli_epi32(nibbles, 28 - 4 * j));
      v[j] = _mm256_mul_ps(magnitude, _mm256_blendv_ps(scale, negative, sign));
    }
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

std::int64_t matmul_scratch_bytes(std::int64_t k) {
  return linear_f32::padded(k) * linear_f32::kTileRows * 4;
}

void matmul(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind == ScaleKind::kNone || m.w.block_cols % 32 == 0, "scales lie on 32 columns");
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
