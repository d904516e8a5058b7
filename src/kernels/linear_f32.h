// Products in f32 for the vector levels that decode weights to f32. Every lane is one running sum of fused
// products; of weights with block scales it is one running sum of steps: the products of a step with the
// unscaled weights, summed by themselves, times the step's scales. Few tokens decode in registers, many from
// a decoded tile; the vectors and their order are the same, so the sums are.
//
// `V` is the vector type of a level, `D` decodes one kind of weight to vectors without their scales. Where
// D::kScales, the scales of a step's blocks of 32 columns are f32 by then, times D::kFactor, which decoding
// leaves out, and D::spread gives them to the lanes. Both live in the level's own file.
#pragma once

#include "formats/weight_view.h"
#include "kernels/row_runs.h"
#include "kernels/row_scales.h"
#include "kernels/simd.h"
#include "kernels/table.h"

namespace seekline::linear_f32 {

inline constexpr int kRows = 4;  ///< rows streamed or multiplied together
inline constexpr std::int64_t kTileRows = 8;

SEEKLINE_SIMD std::int64_t row_bytes(const WeightView& w) {
  switch (w.kind) {
    case WeightKind::kF32:
      return w.cols * 4;
    case WeightKind::kF16:
    case WeightKind::kBF16:
      return w.cols * 2;
    case WeightKind::kE4M3:
      return w.cols;
    case WeightKind::kE2M1:
      return w.cols / 2;
  }
  return 0;
}

SEEKLINE_SIMD std::int64_t steps(std::int64_t k, int weights) { return (k + weights - 1) / weights; }

/// The longest step of any kind, in weights: prepared rows and tiles are padded to it.
inline constexpr std::int64_t kLongestStep = 128;

SEEKLINE_SIMD std::int64_t padded(std::int64_t k) {
  return (k + kLongestStep - 1) / kLongestStep * kLongestStep;
}

/// Room for the scales of a row, in whole vectors.
SEEKLINE_SIMD std::int64_t scale_floats(std::int64_t k) { return (padded(k) / 32 + 15) / 16 * 16; }

/// Few tokens take the scales of kRows rows, many those of one and a tile, whose steps are at most half as
/// long again as their weights.
SEEKLINE_SIMD std::int64_t scratch_bytes(std::int64_t k) {
  return scale_floats(k) * kRows * 4 + padded(k) * kTileRows * 6;
}

/// Scales of the blocks of 32 columns [first, first + count) of a row, times a factor; past the end of the
/// row the last one's.
SEEKLINE_SIMD void unpack_scales(const WeightView& w, const std::uint8_t* scales, std::int64_t first,
                                 std::int64_t count, float factor, float* out) {
  const std::int64_t last = (w.cols - 1) >> 5;
  const int shift = w.block_cols == 32 ? 0 : 2;
  std::int64_t i = 0;
  if (w.scale_kind == ScaleKind::kUE8M0 && shift == 0)
    for (; i < count && first + i <= last; ++i) out[i] = factor * simd::power_of(scales[first + i]);
  for (; i < count; ++i) {
    const std::int64_t block = (first + i < last ? first + i : last) >> shift;
    float scale;
    if (w.scale_kind == ScaleKind::kF32) {
      __builtin_memcpy(&scale, scales + 4 * block, 4);
    } else {
      scale = simd::power_of(scales[block]);
    }
    out[i] = factor * scale;
  }
}

/// Decoding gives the vectors of a step one by one, so that what uses them as they come needs no registers
/// for all. This keeps them.
template <class V>
struct Store {
  typename V::F* out;
  SEEKLINE_MEMBER void operator()(int i, typename V::F v) const { out[i] = v; }
};

/// Decodes step `s` of a row without scales; past the end of the row weights are 0.
template <class V, class D>
SEEKLINE_SIMD void decode_codes(const WeightView& w, const D& d, const std::uint8_t* row, std::int64_t s,
                                typename V::F* out) {
  const std::int64_t at = s * D::kBytes, left = row_bytes(w) - at;
  if (left >= D::kBytes) {
    d.decode(row + at, Store<V>{out});
  } else {
    std::uint8_t padded[D::kBytes] = {};
    __builtin_memcpy(padded, row + at, static_cast<std::size_t>(left));
    d.decode(padded, Store<V>{out});
  }
}

/// The same with scales: the weights themselves.
template <class V, class D>
SEEKLINE_SIMD void decode_step(const WeightView& w, const D& d, std::int64_t row, std::int64_t s,
                               typename V::F* out) {
  decode_codes<V, D>(w, d, w.data + row * row_bytes(w), s, out);
  if constexpr (D::kScales > 0) {
    float scales[D::kScales];
    unpack_scales(w, simd::row_scales(w, row), s * D::kScales, D::kScales, D::kFactor, scales);
    for (int i = 0; i < D::kVectors; ++i) out[i] = V::mul(out[i], d.spread(scales));
  }
}

/// Adds or sets the finished sums of the first `rows` rows of a group for one token.
template <class V>
SEEKLINE_SIMD void finish(const Matmul& m, std::int64_t t, const std::int64_t* index, int rows,
                          typename V::F a, typename V::F b, typename V::F c, typename V::F d) {
  float y[kRows];
  V::reduce4(a, b, c, d, y);
  for (int r = 0; r < rows; ++r) m.y[t][index[r]] = m.accumulate ? m.y[t][index[r]] + y[r] : y[r];
}

/// The rows of a group: where they lie, and their scales, unpacked where there are any.
struct Rows {
  std::int64_t index[kRows];
  const std::uint8_t* data[kRows];
  float* scales[kRows];
};

/// Adds step `s`, the bytes at data[r] of every row.
template <class V, class D, int T>
SEEKLINE_SIMD void add_rows(const Matmul& m, const D& d, const std::uint8_t* const* data,
                            const float* const* scales, std::int64_t s, typename V::F (&sum)[T][kRows]) {
  const auto load_x = [&](int t, int i) __attribute__((always_inline)) {
    return V::load(reinterpret_cast<const float*>(m.x[t]) + s * D::kWeights + i * V::kLanes);
  };
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    typename V::F part[T];
    d.decode(
        data[r], [&](int i, typename V::F v) __attribute__((always_inline)) {
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) {
            if constexpr (D::kScales > 0) {
              part[t] = i == 0 ? V::mul(v, load_x(t, i)) : V::fma(v, load_x(t, i), part[t]);
            } else {
              sum[t][r] = V::fma(v, load_x(t, i), sum[t][r]);
            }
          }
        });
    if constexpr (D::kScales > 0) {
      const typename V::F scale = d.spread(scales[r] + s * D::kScales);
#pragma GCC unroll 4
      for (int t = 0; t < T; ++t) sum[t][r] = V::fma(part[t], scale, sum[t][r]);
    }
  }
}

/// Adds the whole steps in bytes [begin, end) and fetches lines that stand `ahead` bytes further.
template <class V, class D, int T>
SEEKLINE_SIMD void add_span(const Matmul& m, const D& d, const Rows& rows, std::int64_t begin,
                            std::int64_t end, std::int64_t ahead, int passes,
                            typename V::F (&sum)[T][kRows]) {
  // One token is alone, or the last of several passes.
  simd::Pace<kRows, D::kBytes, (T > 1)> pace(rows.data, begin, ahead, passes);
  for (std::int64_t at = begin; at < end; at += D::kBytes) {
    pace.step(at);
    const std::uint8_t* data[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) data[r] = rows.data[r] + at;
    add_rows<V, D, T>(m, d, data, rows.scales, at / D::kBytes, sum);
  }
}

/// What is left of a row behind its whole steps.
template <class V, class D, int T>
SEEKLINE_SIMD void add_rest(const Matmul& m, const D& d, const Rows& rows, std::int64_t at, std::int64_t left,
                            typename V::F (&sum)[T][kRows]) {
  std::uint8_t padded[kRows][D::kBytes] = {};
  const std::uint8_t* data[kRows];
  for (int r = 0; r < kRows; ++r) {
    __builtin_memcpy(padded[r], rows.data[r] + at, static_cast<std::size_t>(left));
    data[r] = padded[r];
  }
  add_rows<V, D, T>(m, d, data, rows.scales, at / D::kBytes, sum);
}

/// T tokens over the rows of a group.
template <class V, class D, int T>
SEEKLINE_SIMD void pass(const Matmul& m, const D& d, const Rows& rows, int count,
                        const simd::Fetching<kRows>& fetching) {
  const std::int64_t bytes = row_bytes(m.w), whole = bytes / D::kBytes * D::kBytes;
  const std::int64_t within = fetching.within < whole ? fetching.within : whole;
  typename V::F sum[T][kRows];
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[t][r] = V::zero();
  add_span<V, D, T>(m, d, rows, 0, within, fetching.near, fetching.passes, sum);
  add_span<V, D, T>(m, d, rows, within, whole, fetching.far, fetching.passes, sum);
  if (whole < bytes) add_rest<V, D, T>(m, d, rows, whole, bytes - whole, sum);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) finish<V>(m, t, rows.index, count, sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
}

/// Tokens that pass over a group of rows together: as many sums as there are registers for.
template <class V>
constexpr int few_tokens() {
  return V::kFewRegisters ? 2 : 4;
}

/// Weights are read from memory once: up to few_tokens tokens after the other pass over each group of rows.
template <class V, class D>
void few(const Matmul& m) {
  const D d;
  const std::int64_t bytes = row_bytes(m.w);
  const std::int64_t scales = steps(m.w.cols, D::kWeights) * D::kScales;
  const simd::Passes passes(m.tokens, few_tokens<V>());
  const simd::RowRuns<kRows> runs(m.row_begin, m.row_end);
  const std::uint8_t* unpacked[kRows] = {};
  Rows rows;
  for (int r = 0; r < kRows; ++r) rows.scales[r] = reinterpret_cast<float*>(m.scratch) + r * scales;
  for (std::int64_t i = 0; i < runs.groups(); ++i) {
    for (int r = 0; r < kRows; ++r) {
      rows.index[r] = runs.row(i, r);
      rows.data[r] = m.w.data + rows.index[r] * bytes;
      if constexpr (D::kScales > 0) {
        const std::uint8_t* of_row = simd::row_scales(m.w, rows.index[r]);
        if (of_row != unpacked[r]) unpack_scales(m.w, of_row, 0, scales, D::kFactor, rows.scales[r]);
        unpacked[r] = of_row;
      }
    }
    if (m.w.kind == WeightKind::kE2M1) simd::fetch_scales<kRows>(unpacked, (m.w.cols + 31) / 32);
    for (int p = 0; p < passes.count; ++p) {
      const simd::Fetching<kRows> fetching(runs, i, rows.data, bytes, D::kBytes, m.prefetch, p, passes.count);
      Matmul part = m;
      part.x += passes.first(p);
      part.y += passes.first(p);
      switch (passes.tokens(p)) {
        case 1:
          pass<V, D, 1>(part, d, rows, runs.rows(i), fetching);
          break;
        case 2:
          pass<V, D, 2>(part, d, rows, runs.rows(i), fetching);
          break;
        case 3:
          if constexpr (few_tokens<V>() > 2) pass<V, D, 3>(part, d, rows, runs.rows(i), fetching);
          break;
        default:
          if constexpr (few_tokens<V>() > 2) pass<V, D, 4>(part, d, rows, runs.rows(i), fetching);
      }
    }
  }
}

/// Floats of one step in a decoded tile: the vectors, then the scales where there are any.
template <class V, class D>
constexpr std::int64_t step_floats() {
  return std::int64_t{D::kVectors + (D::kScales > 0 ? 1 : 0)} * V::kLanes;
}

/// `scales` has room for those of a row.
template <class V, class D>
void decode_row(const WeightView& w, std::int64_t r, float* scales, float* out) {
  const D d;
  const std::int64_t count = steps(w.cols, D::kWeights);
  if constexpr (D::kScales > 0)
    unpack_scales(w, simd::row_scales(w, r), 0, count * D::kScales, D::kFactor, scales);
  for (std::int64_t s = 0; s < count; ++s, out += step_floats<V, D>()) {
    typename V::F v[D::kVectors];
    decode_codes<V, D>(w, d, w.data + r * row_bytes(w), s, v);
    for (int i = 0; i < D::kVectors; ++i) V::store(out + i * V::kLanes, v[i]);
    if constexpr (D::kScales > 0) V::store(out + D::kVectors * V::kLanes, d.spread(scales + s * D::kScales));
  }
}

/// kMicroRows rows of a tile times T tokens.
template <class V, class D, int T, int R>
SEEKLINE_SIMD void multiply(const Matmul& m, std::int64_t t, const float* const* w, std::int64_t count,
                            typename V::F (*sum)[kRows]) {
  typename V::F total[T][R];
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) total[u][r] = V::zero();
  for (std::int64_t s = 0; s < count; ++s) {
    typename V::F part[T][R];
#pragma GCC unroll 8
    for (int i = 0; i < D::kVectors; ++i) {
      typename V::F wv[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        wv[r] = V::load(w[r] + s * step_floats<V, D>() + i * V::kLanes);
        simd::in_register(wv[r]);
      }
#pragma GCC unroll 4
      for (int u = 0; u < T; ++u) {
        typename V::F x =
            V::load(reinterpret_cast<const float*>(m.x[t + u]) + s * D::kWeights + i * V::kLanes);
        simd::in_register(x);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          if constexpr (D::kScales > 0) {
            part[u][r] = i == 0 ? V::mul(wv[r], x) : V::fma(wv[r], x, part[u][r]);
          } else {
            total[u][r] = V::fma(wv[r], x, total[u][r]);
          }
        }
      }
    }
    if constexpr (D::kScales > 0) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const typename V::F scale = V::load(w[r] + s * step_floats<V, D>() + D::kVectors * V::kLanes);
#pragma GCC unroll 4
        for (int u = 0; u < T; ++u) total[u][r] = V::fma(part[u][r], scale, total[u][r]);
      }
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u)
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) sum[u][r] = total[u][r];
}

/// kRows rows times T tokens. Scaled kinds have twice the sums: where registers are few, half the rows at a
/// time.
template <class V, class D, int T>
SEEKLINE_SIMD void multiply_rows(const Matmul& m, std::int64_t t, std::int64_t row, std::int64_t rows,
                                 const float* const* w, std::int64_t count) {
  constexpr int kHalf = (D::kScales > 0) && V::kFewRegisters ? kRows / 2 : kRows;
  typename V::F sum[T][kRows];
  for (int r = 0; r < kRows; r += kHalf) {
    typename V::F some[T][kRows];
    multiply<V, D, T, kHalf>(m, t, w + r, count, some);
    for (int u = 0; u < T; ++u)
      for (int i = 0; i < kHalf; ++i) sum[u][r + i] = some[u][i];
  }
  const std::int64_t index[kRows] = {row, row + 1, row + 2, row + 3};
  for (int u = 0; u < T; ++u)
    finish<V>(m, t + u, index, static_cast<int>(rows), sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
}

template <class V, class D>
void many(const Matmul& m) {
  const std::int64_t count = steps(m.w.cols, D::kWeights), stride = count * step_floats<V, D>();
  const std::int64_t bytes = row_bytes(m.w);
  float* scales = reinterpret_cast<float*>(m.scratch);
  float* tile = scales + scale_floats(m.w.cols);
  for (std::int64_t first = m.row_begin; first < m.row_end; first += kTileRows) {
    const std::int64_t tile_rows = m.row_end - first < kTileRows ? m.row_end - first : kTileRows;
    for (std::int64_t r = 0; r < tile_rows; ++r) decode_row<V, D>(m.w, first + r, scales, tile + r * stride);
    const std::int64_t after = first + tile_rows, left = m.row_end - after;
    simd::Ahead ahead{m.w.data + after * bytes, (left < kTileRows ? left : kTileRows) * bytes / 64, 0};
    if (left == 0 && m.prefetch) ahead = {m.prefetch, m.prefetch_bytes / 64, 0};
    ahead.per_call = ahead.lines * kRows * V::kTokens / (tile_rows * m.tokens) + 1;
    for (std::int64_t r = 0; r < tile_rows; r += kRows) {
      const std::int64_t rows = tile_rows - r < kRows ? tile_rows - r : kRows;
      const float* w[kRows];
      for (std::int64_t i = 0; i < kRows; ++i) w[i] = tile + (r + (i < rows ? i : rows - 1)) * stride;
      std::int64_t t = 0;
      for (; t + V::kTokens <= m.tokens; t += V::kTokens) {
        ahead.fetch();
        multiply_rows<V, D, V::kTokens>(m, t, first + r, rows, w, count);
      }
      for (; t < m.tokens; ++t) multiply_rows<V, D, 1>(m, t, first + r, rows, w, count);
    }
  }
}

template <class V, class D>
void run(const Matmul& m) {
  if (m.tokens > 4 * few_tokens<V>()) return many<V, D>(m);
  few<V, D>(m);
}

/// x in the order of D's vectors; `place(i)` is the position of weight i within a step.
template <class D>
SEEKLINE_SIMD void permute(const float* x, std::int64_t k, float* out) {
  std::int64_t first = 0;
  for (; first + D::kWeights <= k; first += D::kWeights)
    for (int i = 0; i < D::kWeights; ++i) out[first + D::place(i)] = x[first + i];
  if (first == k) return;
  for (int i = 0; i < D::kWeights; ++i) out[first + D::place(i)] = first + i < k ? x[first + i] : 0;
}

}  // namespace seekline::linear_f32
