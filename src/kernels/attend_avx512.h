// Attention over one tile (tile_avx512.h) in 16 lanes, for f32 and for pairs of bf16. An operation multiplies
// dwords and adds to f32 lanes. Lanes of keys are rows, so scores need no sum across lanes. A query's dwords,
// and later its softmax weights, are broadcast. Every score is one running sum along the width, every output
// one along the rows; how many queries share a call does not matter to either. Where an operation takes a
// dword in two halves (Op::kHalves), queries and weights lie in a plane for each.
//
// Rows that no query of a micro-kernel sees are left out where they are the tile's last: their weights are 0,
// so they could only turn an output of -0 into +0, which is done to all outputs instead.
#pragma once

#include "kernels/tile_avx512.h"

namespace seekline::attend_lanes {

inline constexpr int kQueries = 6;  ///< of one micro-kernel: 6 x 4 sums, 4 operands, 1 broadcast

/// Scores of Q queries with the first 16 V rows of the tile.
template <class Op, int Q, int V>
void scores(const AttendTile& tile, const std::int32_t* const* q, float (*out)[kTileRows]) {
  const auto* keys = reinterpret_cast<const std::int32_t*>(tile.keys);
  const int columns = dwords<Op>(tile.key_width);
  __m512 sum[Q][V];
  for (auto& query : sum)
    for (auto& lanes : query) lanes = _mm512_setzero_ps();
  {
    [[maybe_unused]] const typename Op::Mode mode;
    for (int c = 0; c < columns; ++c) {
#pragma GCC unroll 2
      for (int half = 0; half < Op::kHalves; ++half) {
        __m512i key[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v)
          key[v] = Op::half(_mm512_loadu_si512(keys + c * kTileRows + v * 16), half);
#pragma GCC unroll 6
        for (int i = 0; i < Q; ++i) {
          const __m512i x = _mm512_set1_epi32(q[i][half * columns + c]);
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sum[i][v] = Op::multiply_add(sum[i][v], key[v], x);
        }
      }
    }
  }
  const __m512 scale = _mm512_set1_ps(tile.scale);
  for (int i = 0; i < Q; ++i)
    for (int v = 0; v < V; ++v) _mm512_store_ps(out[i] + v * 16, _mm512_mul_ps(sum[i][v], scale));
}

/// Scores -> weights in place; moves max and sum on. Returns what the old sums keep.
SEEKLINE_SIMD float softmax_step(float* s, int valid, AttendState& state) {
  const __m512 none = _mm512_set1_ps(-__builtin_huge_valf());
  __m512 v[4];
  __m512 most = _mm512_set1_ps(state.max);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_mask_load_ps(none, simd::first16(valid > 16 * i ? valid - 16 * i : 0), s + 16 * i);
    most = _mm512_max_ps(most, v[i]);
  }
  const float max = _mm512_reduce_max_ps(most);
  const __m512 vmax = _mm512_set1_ps(max);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __mmask16 seen = simd::first16(valid > 16 * i ? valid - 16 * i : 0);
    v[i] = _mm512_maskz_mov_ps(seen, simd::exp(_mm512_sub_ps(v[i], vmax)));
    _mm512_store_ps(s + 16 * i, v[i]);
  }
  const float keep = _mm512_cvtss_f32(simd::exp(_mm512_set1_ps(state.max - max)));
  state.sum =
      state.sum * keep + simd::reduce(_mm512_add_ps(_mm512_add_ps(v[0], v[1]), _mm512_add_ps(v[2], v[3])));
  state.max = max;
  return keep;
}

/// Vectors [channel, channel + 16 N) of the outputs of Q queries, from the first `rows` rows.
template <class Op, int Q, int N>
SEEKLINE_SIMD void values(const AttendTile& tile, const std::int32_t (*weights)[kTileRows], const float* keep,
                          AttendState* const* states, int rows, int channel) {
  const auto* tile_rows = reinterpret_cast<const std::int32_t*>(tile.values) + channel;
  const int stride = padded16(tile.value_width);
  const __mmask16 last = simd::first16(tile.value_width - channel - 16 * (N - 1));
  __m512 sum[Q][N];
#pragma GCC unroll 6
  for (int i = 0; i < Q; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const float* out = states[i]->out + channel + 16 * v;
      const __m512 old = v == N - 1 ? _mm512_maskz_loadu_ps(last, out) : _mm512_loadu_ps(out);
      sum[i][v] = _mm512_mul_ps(old, _mm512_set1_ps(keep[i]));
    }
  constexpr int kSteps = kTileRows / Op::kPerDword;
  const int steps = dwords<Op>(rows);
  for (int r = 0; r < steps; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < Op::kHalves; ++half) {
      __m512i value[N];
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v)
        value[v] = Op::half(_mm512_loadu_si512(tile_rows + r * stride + 16 * v), half);
#pragma GCC unroll 6
      for (int i = 0; i < Q; ++i) {
        const __m512i p = _mm512_set1_epi32(weights[i][half * kSteps + r]);
#pragma GCC unroll 4
        for (int v = 0; v < N; ++v) sum[i][v] = Op::multiply_add(sum[i][v], value[v], p);
      }
    }
  }
#pragma GCC unroll 6
  for (int i = 0; i < Q; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      float* out = states[i]->out + channel + 16 * v;
      const __m512 no_minus_zero = _mm512_add_ps(sum[i][v], _mm512_setzero_ps());
      if (v == N - 1) {
        _mm512_mask_storeu_ps(out, last, no_minus_zero);
      } else {
        _mm512_storeu_ps(out, no_minus_zero);
      }
    }
}

template <class Op, int Q>
void attend_queries(const AttendTile& tile, const int* index) {
  const std::int32_t* q[Q];
  AttendState* states[Q];
  int rows = 0;
  for (int i = 0; i < Q; ++i) {
    rows = tile.valid[index[i]] > rows ? tile.valid[index[i]] : rows;
    q[i] = reinterpret_cast<const std::int32_t*>(tile.q[index[i]]);
    states[i] = tile.states + index[i];
  }
  alignas(64) float s[Q][kTileRows];
  alignas(64) std::int32_t weights[Q][kTileRows];
  float keep[Q];
  rows <= 16 ? scores<Op, Q, 1>(tile, q, s) : scores<Op, Q, 4>(tile, q, s);
  for (int i = 0; i < Q; ++i) {
    keep[i] = softmax_step(s[i], tile.valid[index[i]], *states[i]);
    Op::pack_weights(s[i], weights[i]);
  }
  [[maybe_unused]] const typename Op::Mode mode;
  int channel = 0;
  for (; channel + 64 <= padded16(tile.value_width); channel += 64)
    values<Op, Q, 4>(tile, weights, keep, states, rows, channel);
  for (; channel < tile.value_width; channel += 16)
    values<Op, Q, 1>(tile, weights, keep, states, rows, channel);
}

template <class Op>
SEEKLINE_SIMD void attend(const AttendTile& tile) {
  for (int next = 0; next < tile.queries;) {
    int index[kQueries], n = 0;
    for (; next < tile.queries && n < kQueries; ++next)
      if (tile.valid[next] > 0) index[n++] = next;
    switch (n) {
      case 1:
        attend_queries<Op, 1>(tile, index);
        break;
      case 2:
        attend_queries<Op, 2>(tile, index);
        break;
      case 3:
        attend_queries<Op, 3>(tile, index);
        break;
      case 4:
        attend_queries<Op, 4>(tile, index);
        break;
      case 5:
        attend_queries<Op, 5>(tile, index);
        break;
      case 6:
        attend_queries<Op, 6>(tile, index);
        break;
      default:
        break;
    }
  }
}

}  // namespace seekline::attend_lanes
