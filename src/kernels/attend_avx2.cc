// Attention over one tile in 8 lanes of f32. Keys and values have one form: rows of f32, padded with zeros to
// whole vectors. A score is one running sum in 8 lanes along the width and one fixed tree; an output is one
// running sum along the rows. How many queries share a call does not matter to either. The tile's last rows
// are left out where no query of a micro-kernel sees them (attend_avx512.h says why that changes nothing).
#include "core/check.h"
#include "kernels/avx2.h"
#include "kernels/rows_avx2.h"

namespace seekline::avx2 {
namespace {

constexpr int kQueries = 3;  // 3 x 4 sums, 4 operands
constexpr int kWidestRow = 4096;

/// Scores of Q queries with the first `rows` rows of the tile.
template <int Q>
SEEKLINE_SIMD void scores(const AttendTile& tile, const float* const* q, int rows, float (*out)[kTileRows]) {
  const int width = simd8::padded8(tile.key_width);
  const auto* keys = reinterpret_cast<const float*>(tile.keys);
  for (int row = 0; row < rows; row += 4) {
    const float* key = keys + row * width;
    __m256 sum[Q][4];
#pragma GCC unroll 3
    for (int i = 0; i < Q; ++i)
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[i][r] = _mm256_setzero_ps();
    for (int c = 0; c < width; c += 8) {
      __m256 x[Q];
#pragma GCC unroll 3
      for (int i = 0; i < Q; ++i) x[i] = _mm256_loadu_ps(q[i] + c);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) {
        const __m256 k = _mm256_loadu_ps(key + r * width + c);
#pragma GCC unroll 3
        for (int i = 0; i < Q; ++i) sum[i][r] = _mm256_fmadd_ps(k, x[i], sum[i][r]);
      }
    }
#pragma GCC unroll 3
    for (int i = 0; i < Q; ++i)
      _mm_storeu_ps(out[i] + row, _mm_mul_ps(simd8::reduce4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]),
                                             _mm_set1_ps(tile.scale)));
  }
}

/// Scores -> weights in place; moves max and sum on. Returns what the old sums keep.
SEEKLINE_SIMD float softmax_step(float* s, int valid, AttendState& state) {
  float max = state.max;
  for (int j = 0; j < valid; ++j) max = s[j] > max ? s[j] : max;
  const __m256 vmax = _mm256_set1_ps(max);
  __m256 sum = _mm256_setzero_ps();
  for (int j = 0; j < kTileRows; j += 8) {
    const __m256 seen = _mm256_castsi256_ps(simd8::first8(valid - j));
    const __m256 w = _mm256_and_ps(seen, simd8::exp(_mm256_sub_ps(_mm256_loadu_ps(s + j), vmax)));
    _mm256_storeu_ps(s + j, w);
    sum = _mm256_add_ps(sum, w);
  }
  const float keep = _mm256_cvtss_f32(simd8::exp(_mm256_set1_ps(state.max - max)));
  state.sum = state.sum * keep + simd8::reduce(sum);
  state.max = max;
  return keep;
}

/// Channels [channel, channel + 8 N) of the outputs of Q queries, from the first `rows` rows; the last vector
/// may be partly outside.
template <int Q, int N>
SEEKLINE_SIMD void values(const AttendTile& tile, const float (*weights)[kTileRows], const float* keep,
                          AttendState* const* states, int rows, int channel) {
  const int width = simd8::padded8(tile.value_width);
  const float* values = reinterpret_cast<const float*>(tile.values) + channel;
  const __m256i last = simd8::first8(tile.value_width - channel - 8 * (N - 1));
  __m256 sum[Q][N];
#pragma GCC unroll 3
  for (int i = 0; i < Q; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const float* out = states[i]->out + channel + 8 * v;
      const __m256 old = v == N - 1 ? _mm256_maskload_ps(out, last) : _mm256_loadu_ps(out);
      sum[i][v] = _mm256_mul_ps(old, _mm256_set1_ps(keep[i]));
    }
  for (int r = 0; r < rows; ++r) {
    __m256 p[Q];
#pragma GCC unroll 3
    for (int i = 0; i < Q; ++i) p[i] = _mm256_broadcast_ss(weights[i] + r);
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      const __m256 value = _mm256_loadu_ps(values + r * width + 8 * v);
#pragma GCC unroll 3
      for (int i = 0; i < Q; ++i) sum[i][v] = _mm256_fmadd_ps(p[i], value, sum[i][v]);
    }
  }
#pragma GCC unroll 3
  for (int i = 0; i < Q; ++i)
#pragma GCC unroll 4
    for (int v = 0; v < N; ++v) {
      float* out = states[i]->out + channel + 8 * v;
      const __m256 no_minus_zero = _mm256_add_ps(sum[i][v], _mm256_setzero_ps());
      if (v == N - 1) {
        _mm256_maskstore_ps(out, last, no_minus_zero);
      } else {
        _mm256_storeu_ps(out, no_minus_zero);
      }
    }
}

template <int Q>
void attend_queries(const AttendTile& tile, const int* index) {
  const float* q[Q];
  AttendState* states[Q];
  int rows = 0;
  for (int i = 0; i < Q; ++i) {
    rows = tile.valid[index[i]] > rows ? tile.valid[index[i]] : rows;
    q[i] = reinterpret_cast<const float*>(tile.q[index[i]]);
    states[i] = tile.states + index[i];
  }
  alignas(32) float s[Q][kTileRows] = {};
  float keep[Q];
  scores<Q>(tile, q, rows, s);
  for (int i = 0; i < Q; ++i) keep[i] = softmax_step(s[i], tile.valid[index[i]], *states[i]);
  int channel = 0;
  for (; channel + 32 <= tile.value_width; channel += 32) values<Q, 4>(tile, s, keep, states, rows, channel);
  for (; channel < tile.value_width; channel += 8) values<Q, 1>(tile, s, keep, states, rows, channel);
}

}  // namespace

std::int64_t query_bytes(Arithmetic, int width) { return std::int64_t{simd8::padded8(width)} * 4; }

void prepare_query(Arithmetic, const float* q, int width, std::uint8_t* out) {
  __builtin_memcpy(out, q, static_cast<std::size_t>(width) * 4);
  __builtin_memset(out + width * 4, 0, static_cast<std::size_t>(simd8::padded8(width) - width) * 4);
}

std::int64_t tile_bytes(Arithmetic, int width) { return std::int64_t{kTileRows} * simd8::padded8(width) * 4; }

const std::uint8_t* load_tile(const TileRows& t) {
  SEEKLINE_CHECK(t.format.width <= kWidestRow, "a cache row wider than a kernel holds");
  const RowLayout layout = row_layout(t.format);
  const auto load = [&](int first, int width, std::uint8_t* tile) __attribute__((always_inline)) {
    const int stride = simd8::padded8(width);
    auto* out = reinterpret_cast<float*>(tile);
    for (int r = 0; r < t.count; ++r, out += stride) {
      rows8::decode_channels(layout, t.rows[r], first, width, out);
      for (int i = width; i < stride; ++i) out[i] = 0;
    }
    __builtin_memset(out, 0, sizeof(float) * static_cast<std::size_t>((kTileRows - t.count) * stride));
  };
  if (t.key_width > 0) load(t.key_first, t.key_width, t.keys);
  if (t.key_first == t.value_first && t.key_width == t.value_width) return t.keys;
  if (t.value_width > 0) load(t.value_first, t.value_width, t.values);
  return t.values;
}

std::int64_t attend_scratch_bytes(int) { return 0; }

void attend(const AttendTile& tile) {
  for (int next = 0; next < tile.queries;) {
    int index[kQueries], n = 0;
    for (; next < tile.queries && n < kQueries; ++next)
      if (tile.valid[next] > 0) index[n++] = next;
    if (n == 1) attend_queries<1>(tile, index);
    if (n == 2) attend_queries<2>(tile, index);
    if (n == 3) attend_queries<3>(tile, index);
  }
}

}  // namespace seekline::avx2
