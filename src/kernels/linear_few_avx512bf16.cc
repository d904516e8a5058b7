// Few tokens: weight rows are streamed once, four at a time (two where there are more than four tokens), and
// decoded in registers.
#include "core/check.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"

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

/// Each step is a sum of its own, times its scales, added to the row's. `step(r, at, left, part)` adds the
/// products of the bytes from `at` on to part[T] and gives the lanes' scales.
template <std::int64_t kBytes, int T, typename AddStep>
SEEKLINE_SIMD void chained_group(const Matmul& m, const Group<rows_for(T)>& g, AddStep step) {
  constexpr int kRows = rows_for(T);
  __m512 sum[kRows][T];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int t = 0; t < T; ++t) sum[r][t] = _mm512_setzero_ps();
  for_steps<kBytes, kWholeRow, kRows>(
      g, weight_row_bytes(m.w),
      [&](std::int64_t at, std::int64_t left, const std::uint8_t* const* ahead)
          __attribute__((always_inline)) {
#pragma GCC unroll 8
            for (int r = 0; r < kRows; ++r) {
              __m512 part[T];
#pragma GCC unroll 8
              for (int t = 0; t < T; ++t) part[t] = _mm512_setzero_ps();
#pragma GCC unroll 2
              for (std::int64_t line = 0; line < kBytes; line += 64)
                _mm_prefetch(ahead[r] + at + line, _MM_HINT_T1);
              const __m512 s = step(r, at, left, part);
#pragma GCC unroll 8
              for (int t = 0; t < T; ++t) sum[r][t] = _mm512_fmadd_ps(part[t], s, sum[r][t]);
            }
          });
  finish<T, kRows>(m, g, sum);
}

/// One sum per row and token over all steps: bf16, and e4m3 with x scaled already.
template <class Step, Dots kForm, int T>
SEEKLINE_SIMD void running_group(const Matmul& m, const Step& step, const Group<rows_for(T)>& g,
                                 const std::uint8_t* const* x) {
  constexpr int kV = Step::kVectors, kRows = rows_for(T);
  constexpr std::int64_t kX = x_vector_bytes(kForm);
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
                  sum[r][t] = add_dot<kForm>(sum[r][t], v[i], x[t] + (at / 64 * kV + i) * kX);
              _mm_prefetch(ahead[r] + at, _MM_HINT_T0);
            }
          });
  finish<T, kRows>(m, g, sum);
}

template <Dots kForm, int T>
void few_bf16(const Matmul& m) {
  constexpr int kRows = rows_for(T);
  const BF16Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows)
    running_group<BF16Step, kForm, T>(m, step, group_at<kRows>(m, o), m.x);
}

/// A prepared vector of x times the scales of the words' blocks, exactly.
template <Dots kForm>
SEEKLINE_SIMD void scale_x(const std::uint8_t* x, __m512i shift, std::uint8_t* out) {
  if constexpr (kForm == Dots::kInstruction) {
    _mm512_storeu_si512(out, scale_words(_mm512_loadu_si512(x), shift));
  } else {
    // The even word of a lane tells its power of two; 2^p as an f32.
    const __m512 scale =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(shift, 16), _mm512_set1_epi32(0x3F800000)));
    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_loadu_ps(x), scale));
    _mm512_storeu_ps(out + 64, _mm512_mul_ps(_mm512_loadu_ps(x + 64), scale));
  }
}

/// Rows of a block share their scales: x takes them once for all of those rows, exactly.
template <Dots kForm, int T>
void few_e4m3(const Matmul& m) {
  constexpr int kRows = rows_for(T);
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  const std::int64_t steps = (m.w.cols + 63) / 64;
  const std::uint8_t* x[T];
  for (int t = 0; t < T; ++t) x[t] = m.scratch + t * steps * 2 * kX;
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
      for (int t = 0; t < T; ++t)
        for (std::int64_t v = 2 * s; v < 2 * s + 2; ++v)
          scale_x<kForm>(m.x[t] + v * kX, shift, m.scratch + (t * steps * 2 + v) * kX);
    }
    for (std::int64_t r = o; r < part.row_end; r += kRows)
      running_group<E4M3Step, kForm, T>(part, step, group_at<kRows>(part, r), x);
  }
}

/// f32 scales are no powers of two: 128 columns are one sum, then times the scale.
template <Dots kForm, int T>
void few_e4m3_f32(const Matmul& m) {
  constexpr int kRows = rows_for(T);
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  const std::int64_t scale_cols = (m.w.cols + 127) / 128;
  const auto* scales = reinterpret_cast<const float*>(m.w.scales);
  const E4M3Step step;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group<kRows> g = group_at<kRows>(m, o);
    const float* row_scales[kRows];
    for (int r = 0; r < kRows; ++r)
      row_scales[r] = scales + (o + (r < g.rows ? r : g.rows - 1)) / m.w.block_rows * scale_cols;
    chained_group<128, T>(
        m,
        g, [&](int r, std::int64_t at, std::int64_t left, __m512(&part)[T]) __attribute__((always_inline)) {
#pragma GCC unroll 2
          for (int h = 0; h < 2; ++h) {
            __m512i v[2];
            const std::uint8_t* p = g.row[r] + at + h * 64;
            step.expand(left == 128 ? _mm512_loadu_si512(p)
                                    : _mm512_maskz_loadu_epi8(simd::first64(left - h * 64), p),
                        v);
#pragma GCC unroll 2
            for (int i = 0; i < 2; ++i)
#pragma GCC unroll 8
              for (int t = 0; t < T; ++t)
                part[t] = add_dot<kForm>(part[t], v[i], m.x[t] + (at / 32 + 2 * h + i) * kX);
          }
          return _mm512_set1_ps(row_scales[r][at / 128]);
        });
  }
}

/// Adds the products of the 128 weights of a line of e2m1. Fused pairs take each weight from the table as an
/// f32: the odd words of vector j are nibbles 4 + j of the 32-bit lanes, the even ones nibbles j.
template <Dots kForm, int T>
SEEKLINE_SIMD void add_e2m1(__m512i bytes, std::int64_t vector, const std::uint8_t* const* x,
                            __m512 (&part)[T]) {
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  if constexpr (kForm == Dots::kInstruction) {
    const E2M1Step step;
    __m512i v[4];
    step.expand(bytes, v);
#pragma GCC unroll 8
    for (int j = 0; j < 4; ++j)
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) part[t] = add_dot<kForm>(part[t], v[j], x[t] + (vector + j) * kX);
  } else {
    const __m512 table = _mm512_load_ps(kE2M1Values.f32);
#pragma GCC unroll 8
    for (unsigned j = 0; j < 4; ++j) {
      const __m512 odd = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 16 + 4 * j), table);
      const __m512 even = _mm512_permutexvar_ps(_mm512_srli_epi32(bytes, 4 * j), table);
#pragma GCC unroll 8
      for (int t = 0; t < T; ++t) {
        const std::uint8_t* at = x[t] + (vector + j) * kX;
        part[t] = _mm512_fmadd_ps(odd, _mm512_loadu_ps(at), part[t]);
        part[t] = _mm512_fmadd_ps(even, _mm512_loadu_ps(at + 64), part[t]);
      }
    }
  }
}

template <Dots kForm, int T>
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
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group<kRows> g = group_at<kRows>(m, o);
    const std::uint8_t* scales[kRows];
    for (int r = 0; r < kRows; ++r) scales[r] = m.w.scales + (o + (r < g.rows ? r : g.rows - 1)) * blocks;
    chained_group<64, T>(
        m,
        g, [&](int r, std::int64_t at, std::int64_t left, __m512(&part)[T]) __attribute__((always_inline)) {
          const std::uint8_t* p = g.row[r] + at;
          add_e2m1<kForm>(
              left == 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(simd::first64(left), p), at / 16,
              m.x, part);
          const auto bytes = static_cast<int>(e2m1_scale_bytes(scales[r], at / 16, blocks));
          return _mm512_castsi512_ps(
              _mm512_slli_epi32(_mm512_shuffle_epi8(_mm512_set1_epi32(bytes), spread), 7));
        });
  }
}

template <Dots kForm, int T>
void few(const Matmul& m) {
  if (m.w.kind == WeightKind::kBF16) return few_bf16<kForm, T>(m);
  if (m.w.kind == WeightKind::kE2M1) return few_e2m1<kForm, T>(m);
  m.w.scale_kind == ScaleKind::kF32 ? few_e4m3_f32<kForm, T>(m) : few_e4m3<kForm, T>(m);
}

template <Dots kForm>
void by_tokens(const Matmul& m) {
  static_assert(kFewTokens == 8);
  static constexpr void (*kByTokens[])(const Matmul&) = {few<kForm, 1>, few<kForm, 2>, few<kForm, 3>,
                                                         few<kForm, 4>, few<kForm, 5>, few<kForm, 6>,
                                                         few<kForm, 7>, few<kForm, 8>};
  if (m.tokens > 0) kByTokens[m.tokens - 1](m);
}

}  // namespace

void matmul_few(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  SEEKLINE_CHECK(m.w.kind != WeightKind::kE2M1 || m.w.block_cols == 32, "e2m1 scales lie on 32 columns");
  dots() == Dots::kInstruction ? by_tokens<Dots::kInstruction>(m) : by_tokens<Dots::kFusedPairs>(m);
}

}  // namespace seekline::avx512bf16
