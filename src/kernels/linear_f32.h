// Products in f32 for the vector levels that decode weights to f32: each weight becomes exactly the value
// that formats/weight_view.h gives, and every lane is one running sum of fused products. Few tokens decode in
// registers, many from a decoded tile; the vectors and their order are the same, so the sums are.
//
// `V` is the vector type of a level, `D` decodes one kind of weight. Both live in the level's own file.
#pragma once

#include "formats/weight_view.h"
#include "kernels/simd.h"
#include "kernels/table.h"

namespace seekline::linear_f32 {

inline constexpr int kRows = 4;  ///< rows streamed or multiplied together
inline constexpr std::int64_t kFewTokens = 2;
inline constexpr std::int64_t kTileRows = 8;

/// Where one weight row lies.
struct Row {
  const std::uint8_t* data;
  const std::uint8_t* scales;  ///< of this row's block row
};

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

SEEKLINE_SIMD Row row_at(const WeightView& w, std::int64_t r) {
  Row row{w.data + r * row_bytes(w), nullptr};
  if (w.scale_kind != ScaleKind::kNone) {
    const std::int64_t scale_cols = (w.cols + w.block_cols - 1) / w.block_cols;
    row.scales = w.scales + r / w.block_rows * scale_cols * (w.scale_kind == ScaleKind::kF32 ? 4 : 1);
  }
  return row;
}

/// The scale of column `col`, of the last block where `col` lies past the end.
SEEKLINE_SIMD float scale_at(const WeightView& w, const Row& row, std::int64_t col) {
  const std::int64_t block = (col < w.cols ? col : w.cols - 1) / w.block_cols;
  float scale;
  if (w.scale_kind == ScaleKind::kF32) {
    __builtin_memcpy(&scale, row.scales + 4 * block, 4);
  } else {
    const std::uint32_t code = row.scales[block], bits = code == 0 ? 0x400000u : code << 23;
    __builtin_memcpy(&scale, &bits, 4);
  }
  return scale;
}

/// Decodes step `s` of a row; past the end of the row weights are 0.
template <class V, class D>
SEEKLINE_SIMD void decode_step(const WeightView& w, const D& d, const Row& row, std::int64_t s,
                               typename V::F* out) {
  const std::int64_t at = s * D::kBytes, left = row_bytes(w) - at;
  if (left >= D::kBytes) {
    d.decode(w, row, s * D::kWeights, row.data + at, out);
  } else {
    std::uint8_t padded[D::kBytes] = {};
    __builtin_memcpy(padded, row.data + at, static_cast<std::size_t>(left));
    d.decode(w, row, s * D::kWeights, padded, out);
  }
}

SEEKLINE_SIMD std::int64_t steps(std::int64_t k, int weights) { return (k + weights - 1) / weights; }

/// Adds or sets the finished sums of a group of rows for one token.
template <class V>
SEEKLINE_SIMD void finish(const Matmul& m, std::int64_t t, std::int64_t row, std::int64_t rows,
                          typename V::F a, typename V::F b, typename V::F c, typename V::F d) {
  float y[kRows];
  V::reduce4(a, b, c, d, y);
  for (std::int64_t r = 0; r < rows; ++r) m.y[t][row + r] = m.accumulate ? m.y[t][row + r] + y[r] : y[r];
}

template <class V, class D, int T>
void few(const Matmul& m) {
  const D d;
  const std::int64_t count = steps(m.w.cols, D::kWeights);
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const std::int64_t rows = m.row_end - o < kRows ? m.row_end - o : kRows;
    Row row[kRows];
    for (std::int64_t r = 0; r < kRows; ++r) row[r] = row_at(m.w, o + (r < rows ? r : rows - 1));
    const std::uint8_t* ahead = row[0].data + kRows * row_bytes(m.w);
    if (o + kRows >= m.row_end) ahead = m.prefetch ? m.prefetch : row[0].data;
    typename V::F sum[T][kRows];
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[t][r] = V::zero();
    for (std::int64_t s = 0; s < count; ++s) {
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        typename V::F v[D::kVectors];
        decode_step<V, D>(m.w, d, row[r], s, v);
#pragma GCC unroll 2
        for (int t = 0; t < T; ++t) {
          const float* x = reinterpret_cast<const float*>(m.x[t]) + s * D::kWeights;
#pragma GCC unroll 8
          for (int i = 0; i < D::kVectors; ++i)
            sum[t][r] = V::fma(v[i], V::load(x + i * V::kLanes), sum[t][r]);
        }
        _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
        ahead += D::kBytes;
      }
    }
#pragma GCC unroll 2
    for (int t = 0; t < T; ++t) finish<V>(m, t, o, rows, sum[t][0], sum[t][1], sum[t][2], sum[t][3]);
  }
}

template <class V, class D>
void decode_row(const WeightView& w, std::int64_t r, float* out) {
  const D d;
  const Row row = row_at(w, r);
  for (std::int64_t s = 0; s < steps(w.cols, D::kWeights); ++s) {
    typename V::F v[D::kVectors];
    decode_step<V, D>(w, d, row, s, v);
    for (int i = 0; i < D::kVectors; ++i) V::store(out + s * D::kWeights + i * V::kLanes, v[i]);
  }
}

template <class V, int T>
SEEKLINE_SIMD void multiply(const Matmul& m, std::int64_t t, std::int64_t row, std::int64_t rows,
                            const float* const* w, std::int64_t k) {
  typename V::F sum[T][kRows];
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[u][r] = V::zero();
  for (std::int64_t i = 0; i < k; i += V::kLanes) {
    typename V::F wv[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) wv[r] = V::load(w[r] + i);
#pragma GCC unroll 4
    for (int u = 0; u < T; ++u) {
      const typename V::F x = V::load(reinterpret_cast<const float*>(m.x[t + u]) + i);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[u][r] = V::fma(wv[r], x, sum[u][r]);
    }
  }
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u) finish<V>(m, t + u, row, rows, sum[u][0], sum[u][1], sum[u][2], sum[u][3]);
}

template <class V, class D>
void many(const Matmul& m) {
  const std::int64_t k = steps(m.w.cols, D::kWeights) * D::kWeights;
  float* tile = reinterpret_cast<float*>(m.scratch);
  for (std::int64_t first = m.row_begin; first < m.row_end; first += kTileRows) {
    const std::int64_t tile_rows = m.row_end - first < kTileRows ? m.row_end - first : kTileRows;
    for (std::int64_t r = 0; r < tile_rows; ++r) decode_row<V, D>(m.w, first + r, tile + r * k);
    for (std::int64_t r = 0; r < tile_rows; r += kRows) {
      const std::int64_t rows = tile_rows - r < kRows ? tile_rows - r : kRows;
      const float* w[kRows];
      for (std::int64_t i = 0; i < kRows; ++i) w[i] = tile + (r + (i < rows ? i : rows - 1)) * k;
      std::int64_t t = 0;
      for (; t + V::kTokens <= m.tokens; t += V::kTokens)
        multiply<V, V::kTokens>(m, t, first + r, rows, w, k);
      for (; t < m.tokens; ++t) multiply<V, 1>(m, t, first + r, rows, w, k);
    }
  }
}

template <class V, class D>
void run(const Matmul& m) {
  if (m.tokens == 1) return few<V, D, 1>(m);
  if (m.tokens == 2) return few<V, D, 2>(m);
  many<V, D>(m);
}

/// The longest step of any kind, in weights: prepared rows and tiles are padded to it.
inline constexpr std::int64_t kLongestStep = 128;

SEEKLINE_SIMD std::int64_t padded(std::int64_t k) {
  return (k + kLongestStep - 1) / kLongestStep * kLongestStep;
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
