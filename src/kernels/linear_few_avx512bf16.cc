// Few tokens: weights are decoded in registers, some rows at a time, by some tokens after the other, and read
// from memory once.
//
// What memory gives depends on the order it is read in: the rows of a group are the next ones of four runs
// (row_runs.h), each read from end to end. x of four tokens does not stay in the first cache beside them,
// but cutting columns for its sake costs more: it cuts the runs.
#include "core/check.h"
#include "kernels/avx512bf16.h"
#include "kernels/line_kinds_avx512bf16.h"
#include "kernels/row_pitch.h"
#include "kernels/row_runs.h"
#include "kernels/row_scales.h"

namespace seekline::avx512bf16 {
namespace {

/// Rows at a time: no more sums than registers, with kFewTokens tokens.
constexpr int kRows = 4;

/// Rows that are multiplied together; missing ones repeat the last.
struct Group {
  const std::uint8_t* row[kRows];
  const std::uint8_t* scales[kRows];
  std::int64_t index[kRows];
  int rows;
  float factor;  ///< of the finished sums
};

template <class Lines>
SEEKLINE_SIMD Group group_at(const Matmul& m, const Lines& lines, const simd::RowRuns<kRows>& runs,
                             std::int64_t i, float factor) {
  Group g;
  g.factor = factor;
  g.rows = runs.rows(i);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    g.index[r] = runs.row(i, r);
    g.row[r] = m.w.data + g.index[r] * weight_row_bytes(m.w);
    g.scales[r] = lines.scales_of(g.index[r]);
  }
  return g;
}

/// Adds the bytes [begin, end) of a group's rows and fetches lines that stand `ahead` bytes further.
template <Dots kForm, bool kSeveral, class Lines, int T>
SEEKLINE_SIMD void add_span(const Lines& lines, const Group& g, std::int64_t begin, std::int64_t end,
                            std::int64_t ahead, int passes, const std::uint8_t* const* x,
                            __m512 (&sum)[kRows][T]) {
  using Step = decltype(lines.load(nullptr, 0));
  simd::Pace<kRows, Lines::kBytes, kSeveral> pace(g.row, begin, ahead, passes);
  const auto step = [&](std::int64_t at, std::int64_t left) __attribute__((always_inline)) {
    const std::int64_t index = at / Lines::kBytes, vector = index * Lines::kVectors;
    pace.step(at);
    if constexpr (Lines::kChained) {
      constexpr int kAtOnce = T > 2 ? kRows / 2 : kRows;  // twice the sums: no more than registers
#pragma GCC unroll 2
      for (int first = 0; first < kRows; first += kAtOnce) {
        if (first > 0) __asm__ volatile("" : : : "memory");  // or g++ keeps x for these and spills sums
        Step row[kAtOnce];
        __m512 part[kAtOnce][T];
#pragma GCC unroll 4
        for (int r = 0; r < kAtOnce; ++r) {
          row[r] = lines.load(g.row[first + r] + at, left);
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) part[r][t] = _mm512_setzero_ps();
        }
        lines.template add<kForm>(row, vector, x, part);
#pragma GCC unroll 4
        for (int r = 0; r < kAtOnce; ++r) {
          const __m512 s = lines.scale(g.scales[first + r], index, left);
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) sum[first + r][t] = _mm512_fmadd_ps(part[r][t], s, sum[first + r][t]);
        }
      }
    } else {
      Step row[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) row[r] = lines.load(g.row[r] + at, left);
      lines.template add<kForm>(row, vector, x, sum);
    }
  };
  std::int64_t at = begin;
  for (; at + Lines::kBytes <= end; at += Lines::kBytes) step(at, Lines::kBytes);
  if (at < end) step(at, end - at);
}

template <int T>
SEEKLINE_SIMD void finish(const Matmul& m, const Group& g, float* const* to, __m512 (&sum)[kRows][T]) {
  const __m128 factor = _mm_set1_ps(g.factor);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    alignas(16) float y[4];
    _mm_store_ps(y, _mm_mul_ps(simd::reduce4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]), factor));
    for (int r = 0; r < g.rows; ++r) {
      float& out = to[t][g.index[r]];
      out = m.accumulate ? out + y[r] : y[r];
    }
  }
}

/// T tokens over the rows of a group.
template <Dots kForm, bool kSeveral, int T, class Lines>
void pass(const Matmul& m, const Lines& lines, const Group& g, const simd::Fetching<kRows>& fetching,
          const std::uint8_t* const* x, float* const* y) {
  __m512 sum[kRows][T];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) sum[r][t] = _mm512_setzero_ps();
  add_span<kForm, kSeveral>(lines, g, 0, fetching.within, fetching.near, fetching.passes, x, sum);
  add_span<kForm, kSeveral>(lines, g, fetching.within, weight_row_bytes(m.w), fetching.far, fetching.passes,
                            x, sum);
  finish(m, g, y, sum);
}

/// Up to kFewTokens tokens after the other pass over each group of rows.
template <Dots kForm, class Lines>
void stream(const Matmul& m, const Lines& lines, const std::uint8_t* const* x, float factor = 1) {
  using Pass = void(const Matmul&, const Lines&, const Group&, const simd::Fetching<kRows>&,
                    const std::uint8_t* const*, float* const*);
  static constexpr Pass* kPasses[2][kFewTokens] = {
      {pass<kForm, false, 1, Lines>, pass<kForm, false, 2, Lines>, pass<kForm, false, 3, Lines>,
       pass<kForm, false, 4, Lines>},
      {pass<kForm, true, 1, Lines>, pass<kForm, true, 2, Lines>, pass<kForm, true, 3, Lines>,
       pass<kForm, true, 4, Lines>}};
  const std::int64_t bytes = weight_row_bytes(m.w);
  const simd::Passes passes(m.tokens, kFewTokens);
  const simd::RowRuns<kRows> runs(m.row_begin, m.row_end);
  for (std::int64_t i = 0; i < runs.groups(); ++i) {
    const Group g = group_at(m, lines, runs, i, factor);
    if (m.w.kind == WeightKind::kE2M1) simd::fetch_scales<kRows>(g.scales, (m.w.cols + 31) / 32);
    for (int p = 0; p < passes.count; ++p) {
      const simd::Fetching<kRows> fetching(runs, i, g.row, bytes, Lines::kBytes, m.prefetch, p, passes.count);
      kPasses[passes.count > 1][passes.tokens(p) - 1](m, lines, g, fetching, x + passes.first(p),
                                                      m.y + passes.first(p));
    }
  }
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

/// Rows of a block share their scales: x takes them once for all of those rows, exactly. Where f32 scales
/// have no factor in common, each step's sum is scaled.
template <Dots kForm>
void few_e4m3(const Matmul& m) {
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  const std::int64_t steps = (m.w.cols + 63) / 64, pitch = row_pitch(steps * 2 * kX);
  const std::int64_t ahead = simd::fetched_ahead(m.w.cols, simd::Passes(m.tokens, kFewTokens).count);
  const std::uint8_t* x[kMostStreamed];
  for (int t = 0; t < m.tokens; ++t) x[t] = m.scratch + t * pitch;
  const RunningLines<E4M3Step> lines;
  Matmul part = m;
  for (std::int64_t o = m.row_begin; o < m.row_end; o = part.row_end) {
    const std::uint8_t* scales = simd::row_scales(m.w, o);
    const float factor = common_factor(m.w, scales);
    part.row_begin = o;
    part.row_end = (o / m.w.block_rows + 1) * m.w.block_rows;
    while (factor == 0 && part.row_end < m.row_end &&
           common_factor(m.w, simd::row_scales(m.w, part.row_end)) == 0)
      part.row_end += m.w.block_rows;
    part.prefetch = m.w.data + part.row_end * m.w.cols;
    if (part.row_end >= m.row_end) {
      part.row_end = m.row_end;
      part.prefetch = m.prefetch;
    }
    if (factor == 0) {
      stream<kForm>(part, ScaledE4M3Lines(m.w), m.x);
      continue;
    }
    const simd::RowRuns<kRows> runs(part.row_begin, part.row_end);
    for (std::int64_t s = 0; s < steps; ++s) {
      // Memory goes on meanwhile: a line behind those that were fetched with the rows before.
      const std::uint8_t* run = m.w.data + runs.row(0, static_cast<int>(s % kRows)) * m.w.cols;
      simd::fetch_line(run + ahead + s / kRows * 64);
      const __m512i shift = e4m3_shift(m.w, scales, s * 64);
      for (int t = 0; t < m.tokens; ++t)
        for (std::int64_t v = 2 * s; v < 2 * s + 2; ++v)
          scale_x<kForm>(m.x[t] + v * kX, shift, m.scratch + t * pitch + v * kX);
    }
    stream<kForm>(part, lines, x, factor);
  }
}

template <Dots kForm>
void few(const Matmul& m) {
  if (m.w.kind == WeightKind::kBF16) return stream<kForm>(m, RunningLines<BF16Step>{}, m.x);
  if (m.w.kind == WeightKind::kE2M1) return stream<kForm>(m, E2M1Lines(m.w), m.x);
  few_e4m3<kForm>(m);
}

}  // namespace

void matmul_few(const Matmul& m) {
  SEEKLINE_CHECK(m.tokens <= kMostStreamed, "more tokens are multiplied with decoded tiles");
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  SEEKLINE_CHECK(m.w.kind != WeightKind::kE2M1 || m.w.block_cols == 32, "e2m1 scales lie on 32 columns");
  dots() == Dots::kInstruction ? few<Dots::kInstruction>(m) : few<Dots::kFusedPairs>(m);
}

}  // namespace seekline::avx512bf16
