// Products along the rows of a weight, in f32, for the levels that decode weights to f32 (linear_f32.h):
// lanes are columns, so every output is one running sum of fused products in row order.
#pragma once

#include "kernels/linear_f32.h"

namespace seekline::transposed_f32 {

/// T tokens times one decoded step: tile [rows][kWeights].
template <class V, class D, int T>
SEEKLINE_SIMD void multiply(const TransposedMatmul& m, std::int64_t t, std::int64_t col, const float* tile) {
  constexpr int kV = D::kVectors;
  typename V::F sum[T][kV];
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u)
#pragma GCC unroll 8
    for (int i = 0; i < kV; ++i) sum[u][i] = V::zero();
  for (std::int64_t r = 0; r < m.row_end - m.row_begin; ++r) {
#pragma GCC unroll 8
    for (int i = 0; i < kV; ++i) {
      const typename V::F w = V::load(tile + r * D::kWeights + i * V::kLanes);
#pragma GCC unroll 4
      for (int u = 0; u < T; ++u) sum[u][i] = V::fma(w, V::all(m.x[t + u][r]), sum[u][i]);
    }
  }
  const std::int64_t count = m.col_end - col < D::kWeights ? m.col_end - col : D::kWeights;
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u) {
    float lanes[D::kWeights];
#pragma GCC unroll 8
    for (int i = 0; i < kV; ++i) V::store(lanes + i * V::kLanes, sum[u][i]);
    for (std::int64_t i = 0; i < count; ++i) m.y[t + u][col + i] = lanes[D::place(static_cast<int>(i))];
  }
}

template <class V, class D>
void run(const TransposedMatmul& m) {
  const D d;
  float* tile = reinterpret_cast<float*>(m.scratch);
  for (std::int64_t col = m.col_begin; col < m.col_end; col += D::kWeights) {
    for (std::int64_t r = m.row_begin; r < m.row_end; ++r) {
      typename V::F v[D::kVectors];
      linear_f32::decode_step<V, D>(m.w, d, r, col / D::kWeights, v);
      for (int i = 0; i < D::kVectors; ++i)
        V::store(tile + (r - m.row_begin) * D::kWeights + i * V::kLanes, v[i]);
    }
    std::int64_t t = 0;
    for (; t + 4 <= m.tokens; t += 4) multiply<V, D, 4>(m, t, col, tile);
    for (; t < m.tokens; ++t) multiply<V, D, 1>(m, t, col, tile);
  }
}

SEEKLINE_SIMD std::int64_t scratch_bytes(std::int64_t rows) { return rows * linear_f32::kLongestStep * 4; }

}  // namespace seekline::transposed_f32
