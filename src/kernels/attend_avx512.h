// Attention over one tile in 16 lanes, for f32 and for pairs of bf16.
//
// A "dword" is one f32 or two neighbouring bf16; an operation multiplies dwords and adds to f32 lanes.
//   key form    [dwords of the width][64 rows]    lanes are rows, so scores need no sum across lanes
//   value form  [rows / values per dword][width]  lanes are channels
// A query's dwords, and later its softmax weights, are broadcast. Every score is one running sum along the
// width, every output one along the rows; how many queries share a call does not matter to either. Where an
// operation takes a dword in two halves (Op::kHalves), queries and weights lie in a plane for each.
#pragma once

#include "formats/rows.h"
#include "kernels/simd_avx512.h"
#include "kernels/table.h"

namespace seekline::attend_lanes {

/// What an operation needs to be set while it runs: nothing.
struct AnyMode {};

inline constexpr int kQueries = 6;  ///< of one micro-kernel: 6 x 4 sums, 4 operands, 1 broadcast
inline constexpr int kChunk = 128;  ///< channels decoded at once

template <class Op>
constexpr int dwords(int width) {
  return (width + Op::kPerDword - 1) / Op::kPerDword;
}

SEEKLINE_SIMD int padded16(int n) { return (n + 15) / 16 * 16; }

template <class Op>
std::int64_t tile_bytes(int width) {
  // The larger of the key form and the value form.
  const std::int64_t keys = std::int64_t{dwords<Op>(width)} * kTileRows * 4;
  const std::int64_t values = std::int64_t{kTileRows / Op::kPerDword} * padded16(width) * 4;
  return keys > values ? keys : values;
}

/// Decode: void(const RowRef&, first, count, float* out), channels [first, first + count).
template <class Op, class Decode>
SEEKLINE_SIMD void load_keys(const RowRef* rows, int count, int first, int width, Decode decode,
                             std::uint8_t* tile) {
  const int columns = dwords<Op>(width);
  auto* out = reinterpret_cast<std::int32_t*>(tile);
  for (int row = 0; row < kTileRows; row += 16) {
    for (int channel = 0; channel < width; channel += kChunk) {
      alignas(64) float decoded[16][kChunk];
      const int n = width - channel < kChunk ? width - channel : kChunk;
      for (int r = 0; r < 16; ++r) {
        if (row + r < count) {
          decode(rows[row + r], first + channel, n, decoded[r]);
          for (int i = n; i < kChunk && i % 32 != 0; ++i) decoded[r][i] = 0;
        } else {
          __builtin_memset(decoded[r], 0, sizeof decoded[r]);
        }
      }
      const int base = channel / Op::kPerDword;
      for (int c = 0; c < dwords<Op>(n); c += 16) {
        __m512i block[16];
#pragma GCC unroll 16
        for (int r = 0; r < 16; ++r) block[r] = Op::pack(decoded[r] + c * Op::kPerDword);
        simd::transpose16(block);
        for (int d = 0; d < 16 && base + c + d < columns; ++d)
          _mm512_storeu_si512(out + (base + c + d) * kTileRows + row, block[d]);
      }
    }
  }
}

template <class Op, class Decode>
SEEKLINE_SIMD void load_values(const RowRef* rows, int count, int first, int width, Decode decode,
                               std::uint8_t* tile) {
  constexpr int kPer = Op::kPerDword;
  const int padded = padded16(width);
  auto* out = reinterpret_cast<std::int32_t*>(tile);
  for (int row = 0; row < kTileRows; row += kPer) {
    for (int channel = 0; channel < width; channel += kChunk) {
      alignas(64) float decoded[kPer][kChunk];
      const int n = width - channel < kChunk ? width - channel : kChunk;
      for (int r = 0; r < kPer; ++r) {
        if (row + r < count) {
          decode(rows[row + r], first + channel, n, decoded[r]);
          for (int i = n; i % 16 != 0; ++i) decoded[r][i] = 0;
        } else {
          __builtin_memset(decoded[r], 0, sizeof decoded[r]);
        }
      }
      for (int c = 0; c < n; c += 16)
        _mm512_storeu_si512(out + row / kPer * padded + channel + c,
                            Op::join(_mm512_load_ps(decoded[0] + c), _mm512_load_ps(decoded[kPer - 1] + c)));
    }
  }
}

/// Scores of Q queries with all rows of the tile.
template <class Op, int Q>
void scores(const AttendTile& tile, const std::int32_t* const* q, float (*out)[kTileRows]) {
  const auto* keys = reinterpret_cast<const std::int32_t*>(tile.keys);
  const int columns = dwords<Op>(tile.key_width);
  __m512 sum[Q][4];
  for (auto& query : sum)
    for (auto& lanes : query) lanes = _mm512_setzero_ps();
  {
    [[maybe_unused]] const typename Op::Mode mode;
    for (int c = 0; c < columns; ++c) {
#pragma GCC unroll 2
      for (int half = 0; half < Op::kHalves; ++half) {
        __m512i key[4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v)
          key[v] = Op::half(_mm512_loadu_si512(keys + c * kTileRows + v * 16), half);
#pragma GCC unroll 6
        for (int i = 0; i < Q; ++i) {
          const __m512i x = _mm512_set1_epi32(q[i][half * columns + c]);
#pragma GCC unroll 4
          for (int v = 0; v < 4; ++v) sum[i][v] = Op::multiply_add(sum[i][v], key[v], x);
        }
      }
    }
  }
  const __m512 scale = _mm512_set1_ps(tile.scale);
  for (int i = 0; i < Q; ++i)
    for (int v = 0; v < 4; ++v) _mm512_store_ps(out[i] + v * 16, _mm512_mul_ps(sum[i][v], scale));
}

/// Scores -> weights in place; moves max and sum on. Returns what the old sums keep.
SEEKLINE_SIMD float softmax_step(float* s, int valid, AttendState& state) {
  const __m512 none = _mm512_set1_ps(-__builtin_huge_valf());
  __m512 v[4];
  __m512 most = _mm512_set1_ps(state.max);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    v[i] = _mm512_mask_mov_ps(none, simd::first16(valid > 16 * i ? valid - 16 * i : 0),
                              _mm512_load_ps(s + 16 * i));
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

/// Vectors [channel, channel + 16 N) of the outputs of Q queries.
template <class Op, int Q, int N>
SEEKLINE_SIMD void values(const AttendTile& tile, const std::int32_t (*weights)[kTileRows], const float* keep,
                          AttendState* const* states, int channel) {
  const auto* rows = reinterpret_cast<const std::int32_t*>(tile.values) + channel;
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
  for (int r = 0; r < kSteps; ++r) {
#pragma GCC unroll 2
    for (int half = 0; half < Op::kHalves; ++half) {
      __m512i value[N];
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) value[v] = Op::half(_mm512_loadu_si512(rows + r * stride + 16 * v), half);
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
      if (v == N - 1) {
        _mm512_mask_storeu_ps(out, last, sum[i][v]);
      } else {
        _mm512_storeu_ps(out, sum[i][v]);
      }
    }
}

template <class Op, int Q>
void attend_queries(const AttendTile& tile, const int* index) {
  const std::int32_t* q[Q];
  AttendState* states[Q];
  for (int i = 0; i < Q; ++i) {
    q[i] = reinterpret_cast<const std::int32_t*>(tile.q[index[i]]);
    states[i] = tile.states + index[i];
  }
  alignas(64) float s[Q][kTileRows];
  alignas(64) std::int32_t weights[Q][kTileRows];
  float keep[Q];
  scores<Op, Q>(tile, q, s);
  for (int i = 0; i < Q; ++i) {
    keep[i] = softmax_step(s[i], tile.valid[index[i]], *states[i]);
    Op::pack_weights(s[i], weights[i]);
  }
  [[maybe_unused]] const typename Op::Mode mode;
  int channel = 0;
  for (; channel + 64 <= padded16(tile.value_width); channel += 64)
    values<Op, Q, 4>(tile, weights, keep, states, channel);
  for (; channel < tile.value_width; channel += 16) values<Op, Q, 1>(tile, weights, keep, states, channel);
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
