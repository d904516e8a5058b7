// Few tokens: weight rows are streamed once, four at a time, and decoded in registers.
#include "core/check.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kRows = 4;

/// A group of up to four neighbouring rows; missing ones repeat the last.
struct Group {
  const std::uint8_t* row[kRows];
  std::int64_t first;
  int rows;
  /// What comes next in memory: a line is prefetched for each line read, to the second cache, since x lives
  /// in the first.
  const std::uint8_t* ahead;
};

SEEKLINE_SIMD Group group_at(const Matmul& m, std::int64_t first) {
  const std::int64_t bytes = weight_row_bytes(m.w);
  const int rows = m.row_end - first < kRows ? static_cast<int>(m.row_end - first) : kRows;
  Group g;
  g.first = first;
  g.rows = rows;
  for (int r = 0; r < kRows; ++r) g.row[r] = m.w.data + (first + (r < rows ? r : rows - 1)) * bytes;
  g.ahead = first + kRows < m.row_end ? m.w.data + (first + kRows) * bytes : m.prefetch;
  if (!g.ahead) g.ahead = g.row[0];
  return g;
}

template <int T>
SEEKLINE_SIMD void finish(const Matmul& m, const Group& g, __m512 (&sum)[kRows][T]) {
  const auto mask = static_cast<__mmask8>((1u << g.rows) - 1);
  for (int t = 0; t < T; ++t) {
    __m128 y = simd::reduce4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]);
    float* out = m.y[t] + g.first;
    if (m.accumulate) y = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), y);
    _mm_mask_storeu_ps(out, mask, y);
  }
}

/// One sum per row and token over all steps: bf16, and e4m3 with x scaled already.
template <class Step, int T>
SEEKLINE_SIMD void running_group(const Matmul& m, const Step& step, const Group& g, const __m512i* const* x) {
  constexpr int kV = Step::kVectors;
  __m512 sum[kRows][T];
  for (auto& row : sum)
    for (auto& s : row) s = _mm512_setzero_ps();
  const std::int64_t bytes = weight_row_bytes(m.w);
  const std::uint8_t* ahead = g.ahead;
  const auto take = [&](std::int64_t at, __mmask64 mask) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      __m512i v[kV];
      step.expand(
          mask == ~0ull ? _mm512_loadu_si512(g.row[r] + at) : _mm512_maskz_loadu_epi8(mask, g.row[r] + at),
          v);
#pragma GCC unroll 2
      for (int i = 0; i < kV; ++i)
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t)
          sum[r][t] =
              _mm512_dpbf16_ps(sum[r][t], reinterpret_cast<__m512bh>(v[i]),
                               reinterpret_cast<__m512bh>(_mm512_loadu_si512(x[t] + at / 64 * kV + i)));
      _mm_prefetch(ahead + r * 64, _MM_HINT_T1);
    }
    ahead += kRows * 64;
  };
  std::int64_t at = 0;
  for (; at + 64 <= bytes; at += 64) take(at, ~0ull);
  if (at < bytes) take(at, simd::first64(bytes - at));
  finish<T>(m, g, sum);
}

template <int T>
void few_bf16(const Matmul& m) {
  const __m512i* x[T];
  for (int t = 0; t < T; ++t) x[t] = reinterpret_cast<const __m512i*>(m.x[t]);
  const BF16Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows)
    running_group<BF16Step, T>(m, step, group_at(m, o), x);
}

/// Rows of a block share their scales: x takes them once for all of those rows, exactly.
template <int T>
void few_e4m3(const Matmul& m) {
  const std::int64_t steps = (m.w.cols + 63) / 64;
  auto* scaled = reinterpret_cast<__m512i*>(m.scratch);
  const __m512i* x[T];
  for (int t = 0; t < T; ++t) x[t] = scaled + t * steps * 2;
  const std::int64_t scale_cols = (m.w.cols + m.w.block_cols - 1) / m.w.block_cols;
  const E4M3Step step;
  Matmul part = m;
  for (std::int64_t o = m.row_begin; o < m.row_end; o = part.row_end) {
    const std::int64_t block = o / m.w.block_rows;
    part.row_end = (block + 1) * m.w.block_rows;
    const std::uint8_t* after = m.w.data + part.row_end * m.w.cols;
    if (part.row_end >= m.row_end) {
      part.row_end = m.row_end;
      after = m.prefetch;
    }
    part.prefetch = after;
    for (std::int64_t s = 0; s < steps; ++s) {
      const __m512i shift = e4m3_shift(m.w, m.w.scales + block * scale_cols, s * 64);
      for (int t = 0; t < T; ++t) {
        const auto* from = reinterpret_cast<const __m512i*>(m.x[t]) + 2 * s;
        for (int v = 0; v < 2; ++v)
          _mm512_storeu_si512(scaled + (t * steps + s) * 2 + v,
                              scale_words(_mm512_loadu_si512(from + v), shift));
      }
    }
    for (std::int64_t r = o; r < part.row_end; r += kRows)
      running_group<E4M3Step, T>(part, step, group_at(part, r), x);
  }
}

/// Each step is a sum of its own, times its scales, added to the row's: `scale(r, i)` gives the lanes'
/// scales.
template <class Step, int Halves, int T, typename Scale>
SEEKLINE_SIMD void chained_group(const Matmul& m, const Step& step, const Group& g, Scale scale) {
  constexpr int kV = Step::kVectors;
  __m512 sum[kRows][T];
  for (auto& row : sum)
    for (auto& s : row) s = _mm512_setzero_ps();
  const std::int64_t bytes = weight_row_bytes(m.w);
  const std::uint8_t* ahead = g.ahead;
  const auto take = [&](std::int64_t i, std::int64_t left) __attribute__((always_inline)) {
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      __m512i v[kV * Halves];
#pragma GCC unroll 2
      for (int h = 0; h < Halves; ++h) {
        const std::uint8_t* p = g.row[r] + (i * Halves + h) * 64;
        step.expand(
            left < 0 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(simd::first64(left - h * 64), p),
            v + h * kV);
        _mm_prefetch(ahead + (r * Halves + h) * 64, _MM_HINT_T1);
      }
      const __m512 s = scale(r, i);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) {
        const auto* x = reinterpret_cast<const __m512i*>(m.x[t]) + i * kV * Halves;
        __m512 part = _mm512_setzero_ps();
#pragma GCC unroll 4
        for (int j = 0; j < kV * Halves; ++j)
          part = _mm512_dpbf16_ps(part, reinterpret_cast<__m512bh>(v[j]),
                                  reinterpret_cast<__m512bh>(_mm512_loadu_si512(x + j)));
        sum[r][t] = _mm512_fmadd_ps(part, s, sum[r][t]);
      }
    }
    ahead += kRows * Halves * 64;
  };
  constexpr int kBytes = 64 * Halves;
  std::int64_t i = 0;
  for (; (i + 1) * kBytes <= bytes; ++i) take(i, -1);
  if (i * kBytes < bytes) take(i, bytes - i * kBytes);
  finish<T>(m, g, sum);
}

template <int T>
void few_e2m1(const Matmul& m) {
  // Scale byte b of the four to byte 2 of the lanes 4b .. 4b + 3; 7 places further it is an f32 exponent.
  const __m512i spread = _mm512_set_epi32(
      static_cast<int>(0x80038080), static_cast<int>(0x80038080), static_cast<int>(0x80038080),
      static_cast<int>(0x80038080), static_cast<int>(0x80028080), static_cast<int>(0x80028080),
      static_cast<int>(0x80028080), static_cast<int>(0x80028080), static_cast<int>(0x80018080),
      static_cast<int>(0x80018080), static_cast<int>(0x80018080), static_cast<int>(0x80018080),
      static_cast<int>(0x80008080), static_cast<int>(0x80008080), static_cast<int>(0x80008080),
      static_cast<int>(0x80008080));
  const std::int64_t blocks = m.w.cols / 32 + (m.w.cols % 32 != 0);
  const E2M1Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group g = group_at(m, o);
    const std::uint8_t* scales[kRows];
    for (int r = 0; r < kRows; ++r) scales[r] = m.w.scales + (o + (r < g.rows ? r : g.rows - 1)) * blocks;
    chained_group<E2M1Step, 1, T>(
        m, step, g, [&](int r, std::int64_t i) __attribute__((always_inline)) {
          const auto bytes = static_cast<int>(e2m1_scale_bytes(scales[r], 4 * i, blocks));
          return _mm512_castsi512_ps(
              _mm512_slli_epi32(_mm512_shuffle_epi8(_mm512_set1_epi32(bytes), spread), 7));
        });
  }
}

/// f32 scales are no powers of two: 128 columns are one sum, then times the scale.
template <int T>
void few_e4m3_f32(const Matmul& m) {
  const std::int64_t scale_cols = (m.w.cols + 127) / 128;
  const auto* scales = reinterpret_cast<const float*>(m.w.scales);
  const E4M3Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group g = group_at(m, o);
    const float* row_scales[kRows];
    for (int r = 0; r < kRows; ++r)
      row_scales[r] = scales + (o + (r < g.rows ? r : g.rows - 1)) / m.w.block_rows * scale_cols;
    chained_group<E4M3Step, 2, T>(
        m, step, g, [&](int r, std::int64_t i) __attribute__((always_inline)) {
          return _mm512_set1_ps(row_scales[r][i]);
        });
  }
}

template <int T>
void few(const Matmul& m) {
  if (m.w.kind == WeightKind::kBF16) return few_bf16<T>(m);
  if (m.w.kind == WeightKind::kE2M1) return few_e2m1<T>(m);
  m.w.scale_kind == ScaleKind::kF32 ? few_e4m3_f32<T>(m) : few_e4m3<T>(m);
}

}  // namespace

void matmul_few(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  SEEKLINE_CHECK(m.w.kind != WeightKind::kE2M1 || m.w.block_cols == 32, "e2m1 scales lie on 32 columns");
  switch (m.tokens) {
    case 1:
      return few<1>(m);
    case 2:
      return few<2>(m);
    case 3:
      return few<3>(m);
    case 4:
      return few<4>(m);
    default:
      return;
  }
}

}  // namespace seekline::avx512bf16
