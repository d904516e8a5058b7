// Few tokens: weight rows are streamed once, four at a time (two where there are more than four tokens), and
// decoded in registers.
#include "core/check.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

/// Rows at a time: no more sums than registers.
constexpr int rows_for(int tokens) { return tokens <= 4 ? 4 : 2; }
/// Bytes of a row between a line read and the line of that row prefetched with it, into the first cache. Rows
/// of e2m1 are short and slow to decode: their lines are fetched while the rows before are decoded, into the
/// second cache.
constexpr std::int64_t kAhead = 1024, kWholeRow = std::int64_t{1} << 40;

/// A group of up to kRows neighbouring rows; missing ones repeat the last.
template <int kRows>
struct Group {
  const std::uint8_t* row[kRows];
  std::int64_t first;
  int rows;
  /// The rows that come next; near the end of a row their first lines are prefetched.
  const std::uint8_t* next[kRows];
};

template <int kRows>
SEEKLINE_SIMD Group<kRows> group_at(const Matmul& m, std::int64_t first) {
  const std::int64_t bytes = weight_row_bytes(m.w);
  const int rows = m.row_end - first < kRows ? static_cast<int>(m.row_end - first) : kRows;
  Group<kRows> g;
  g.first = first;
  g.rows = rows;
  const std::uint8_t* next = first + kRows < m.row_end ? m.w.data + (first + kRows) * bytes : m.prefetch;
  for (int r = 0; r < kRows; ++r) {
    g.row[r] = m.w.data + (first + (r < rows ? r : rows - 1)) * bytes;
    g.next[r] = next ? next + r * bytes : g.row[r];
  }
  return g;
}

/// body(at, mask, ahead): every 64 bytes of the rows, the last ones masked; ahead[r] + at is the line to
/// prefetch.
template <std::int64_t kBytes, std::int64_t kAhead, int kRows, typename Body>
SEEKLINE_SIMD void for_steps(const Group<kRows>& g, std::int64_t bytes, Body body) {
  const std::uint8_t* ahead[kRows];
  const std::int64_t within = bytes > kAhead ? bytes - kAhead : 0;
  std::int64_t at = 0;
  for (int r = 0; r < kRows; ++r) ahead[r] = g.row[r] + kAhead;
  for (; at + kBytes <= within; at += kBytes) body(at, kBytes, ahead);
  for (int r = 0; r < kRows; ++r) ahead[r] = g.next[r] - at;
  for (; at + kBytes <= bytes; at += kBytes) body(at, kBytes, ahead);
  if (at < bytes) body(at, bytes - at, ahead);
}

template <int T, int kRows>
SEEKLINE_SIMD void finish(const Matmul& m, const Group<kRows>& g, __m512 (&sum)[kRows][T]) {
  const auto mask = static_cast<__mmask8>((1u << g.rows) - 1);
#pragma GCC unroll 8
  for (int t = 0; t < T; ++t) {
    __m128 y = kRows == 4 ? simd::reduce4(sum[0][t], sum[1][t], sum[2 % kRows][t], sum[3 % kRows][t])
                          : simd::reduce4(sum[0][t], sum[1][t], _mm512_setzero_ps(), _mm512_setzero_ps());
    float* out = m.y[t] + g.first;
    if (m.accumulate) y = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), y);
    _mm_mask_storeu_ps(out, mask, y);
  }
}

/// One sum per row and token over all steps: bf16, and e4m3 with x scaled already.
template <class Step, int T>
SEEKLINE_SIMD void running_group(const Matmul& m, const Step& step, const Group<rows_for(T)>& g,
                                 const __m512i* const* x) {
  constexpr int kV = Step::kVectors, kRows = rows_for(T);
  __m512 sum[kRows][T];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sum[r][t] = _mm512_setzero_ps();
  for_steps<64, kAhead, kRows>(
      g, weight_row_bytes(m.w),
      [&](std::int64_t at, std::int64_t left, const std::uint8_t* const* ahead)
          __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
              __m512i v[kV];
              step.expand(left == 64 ? _mm512_loadu_si512(g.row[r] + at)
                                     : _mm512_maskz_loadu_epi8(simd::first64(left), g.row[r] + at),
                          v);
#pragma GCC unroll 8
              for (int i = 0; i < kV; ++i)
#pragma GCC unroll 8
                for (int t = 0; t < T; ++t)
                  sum[r][t] = _mm512_dpbf16_ps(
                      sum[r][t], reinterpret_cast<__m512bh>(v[i]),
                      reinterpret_cast<__m512bh>(_mm512_loadu_si512(x[t] + at / 64 * kV + i)));
              _mm_prefetch(ahead[r] + at, _MM_HINT_T0);
            }
          });
  finish<T, kRows>(m, g, sum);
}

template <int T>
void few_bf16(const Matmul& m) {
  constexpr int kRows = rows_for(T);
  const __m512i* x[T];
  for (int t = 0; t < T; ++t) x[t] = reinterpret_cast<const __m512i*>(m.x[t]);
  const BF16Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows)
    running_group<BF16Step, T>(m, step, group_at<kRows>(m, o), x);
}

/// Rows of a block share their scales: x takes them once for all of those rows, exactly.
template <int T>
void few_e4m3(const Matmul& m) {
  constexpr int kRows = rows_for(T);
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
      running_group<E4M3Step, T>(part, step, group_at<kRows>(part, r), x);
  }
}

/// Each step is a sum of its own, times its scales, added to the row's: `scale(r, i)` gives the lanes'
/// scales.
template <class Step, int Halves, int T, typename Scale>
SEEKLINE_SIMD void chained_group(const Matmul& m, const Step& step, const Group<rows_for(T)>& g,
                                 Scale scale) {
  constexpr int kV = Step::kVectors, kRows = rows_for(T);
  __m512 sum[kRows][T];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sum[r][t] = _mm512_setzero_ps();
  constexpr std::int64_t kBytes = 64 * Halves;
  for_steps<kBytes, kWholeRow, kRows>(
      g, weight_row_bytes(m.w),
      [&](std::int64_t at, std::int64_t left, const std::uint8_t* const* ahead)
          __attribute__((always_inline)) {
            const std::int64_t i = at / kBytes;
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
              __m512i v[kV * Halves];
#pragma GCC unroll 8
              for (int h = 0; h < Halves; ++h) {
                const std::uint8_t* p = g.row[r] + at + h * 64;
                step.expand(left == kBytes ? _mm512_loadu_si512(p)
                                           : _mm512_maskz_loadu_epi8(simd::first64(left - h * 64), p),
                            v + h * kV);
                _mm_prefetch(ahead[r] + at + h * 64, _MM_HINT_T1);
              }
              const __m512 s = scale(r, i);
#pragma GCC unroll 8
              for (int t = 0; t < T; ++t) {
                const auto* x = reinterpret_cast<const __m512i*>(m.x[t]) + i * kV * Halves;
                __m512 part = _mm512_setzero_ps();
#pragma GCC unroll 8
                for (int j = 0; j < kV * Halves; ++j)
                  part = _mm512_dpbf16_ps(part, reinterpret_cast<__m512bh>(v[j]),
                                          reinterpret_cast<__m512bh>(_mm512_loadu_si512(x + j)));
                sum[r][t] = _mm512_fmadd_ps(part, s, sum[r][t]);
              }
            }
          });
  finish<T, kRows>(m, g, sum);
}

template <int T>
void few_e2m1(const Matmul& m) {
  constexpr int kRows = rows_for(T);
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
    const Group<kRows> g = group_at<kRows>(m, o);
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
  constexpr int kRows = rows_for(T);
  const std::int64_t scale_cols = (m.w.cols + 127) / 128;
  const auto* scales = reinterpret_cast<const float*>(m.w.scales);
  const E4M3Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group<kRows> g = group_at<kRows>(m, o);
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
  static_assert(kFewTokens == 8);
  static constexpr void (*kByTokens[])(const Matmul&) = {few<1>, few<2>, few<3>, few<4>,
                                                         few<5>, few<6>, few<7>, few<8>};
  if (m.tokens > 0) kByTokens[m.tokens - 1](m);
}

}  // namespace seekline::avx512bf16
