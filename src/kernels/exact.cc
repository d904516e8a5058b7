// The truth beside the fast path: what `arithmetic f32` computes with. Values are f32, every sum and function
// inside is f64 and rounded once, and the result is the same on every vector level. Written to be read; the
// only vector code is the level's own dot_exact, whose bits do not depend on the level.
#include "kernels/exact.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/check.h"
#include "formats/rows.h"
#include "kernels/portable.h"

namespace seekline {
namespace {

const Kernels* level = nullptr;  // set before the first use, by exact_kernels()

double exp_of(double x) { return std::exp(x); }
double sigmoid_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }

std::int64_t prepared_bytes(WeightKind, Arithmetic, std::int64_t k) { return k * 4; }
std::int64_t matmul_scratch_bytes(std::int64_t k) { return k * 4; }

// One decoded weight row at a time, in scratch, for all tokens.
void matmul(const Matmul& m) {
  float* row = reinterpret_cast<float*>(m.scratch);
  for (std::int64_t o = m.row_begin; o < m.row_end; ++o) {
    decode_weight_row(m.w, o, row);
    for (std::int64_t t = 0; t < m.tokens; ++t) {
      const float sum =
          static_cast<float>(level->dot_exact(reinterpret_cast<const float*>(m.x[t]), row, m.w.cols));
      m.y[t][o] = m.accumulate ? m.y[t][o] + sum : sum;
    }
  }
}

std::int64_t transposed_scratch_bytes(std::int64_t, std::int64_t cols, std::int64_t tokens) {
  return (cols + tokens * cols * 2) * 4;
}

// One decoded weight row at a time; all tokens' sums wait in f64.
void matmul_transposed(const TransposedMatmul& m) {
  const std::int64_t count = m.col_end - m.col_begin;
  auto* sums = reinterpret_cast<double*>(m.scratch);  // [tokens, count]
  auto* row = reinterpret_cast<float*>(sums + m.tokens * count);
  std::fill_n(sums, m.tokens * count, 0.0);
  for (std::int64_t r = m.row_begin; r < m.row_end; ++r) {
    decode_weight_row(m.w, r, row);
    for (std::int64_t t = 0; t < m.tokens; ++t) {
      const double x = static_cast<double>(m.x[t][r - m.row_begin]);
      double* sum = sums + t * count;
      for (std::int64_t c = 0; c < count; ++c) sum[c] += x * static_cast<double>(row[m.col_begin + c]);
    }
  }
  for (std::int64_t t = 0; t < m.tokens; ++t)
    for (std::int64_t c = 0; c < count; ++c)
      m.y[t][m.col_begin + c] = static_cast<float>(sums[t * count + c]);
}

std::int64_t attend_scratch_bytes(int) { return 0; }

// out = out * keep + sum_j weights[j] * values[j], summed in f64.
void add_values(const AttendTile& tile, const double* weights, int valid, double keep, float* out) {
  constexpr int kChannels = 64;  // at once, in registers and L1
  const float* values = reinterpret_cast<const float*>(tile.values);
  for (int first = 0; first < tile.value_width; first += kChannels) {
    const int n = std::min(kChannels, tile.value_width - first);
    double sum[kChannels];
    for (int d = 0; d < n; ++d) sum[d] = keep * static_cast<double>(out[first + d]);
    for (int j = 0; j < valid; ++j) {
      const float* value = values + j * tile.value_width + first;
      for (int d = 0; d < n; ++d) sum[d] += weights[j] * static_cast<double>(value[d]);
    }
    for (int d = 0; d < n; ++d) out[first + d] = static_cast<float>(sum[d]);
  }
}

void attend_query(const AttendTile& tile, const float* q, int valid, AttendState& state) {
  const float* keys = reinterpret_cast<const float*>(tile.keys);
  double scores[kTileRows];
  float max = state.max;
  for (int j = 0; j < valid; ++j) {
    scores[j] =
        static_cast<double>(tile.scale) * level->dot_exact(q, keys + j * tile.key_width, tile.key_width);
    max = std::max(max, static_cast<float>(scores[j]));
  }
  const double keep =
      state.sum == 0 ? 0.0 : exp_of(static_cast<double>(state.max) - static_cast<double>(max));
  double sum = keep * static_cast<double>(state.sum);
  for (int j = 0; j < valid; ++j) sum += scores[j] = exp_of(scores[j] - static_cast<double>(max));
  add_values(tile, scores, valid, keep, state.out);
  state.sum = static_cast<float>(sum);
  state.max = max;
}

void attend(const AttendTile& tile) {
  for (int i = 0; i < tile.queries; ++i)
    if (tile.valid[i] > 0)
      attend_query(tile, reinterpret_cast<const float*>(tile.q[i]), tile.valid[i], tile.states[i]);
}

float dot(const float* a, const float* b, std::int64_t n) {
  return static_cast<float>(level->dot_exact(a, b, n));
}

float dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]) * static_cast<double>(c[i]);
  return static_cast<float>(sum);
}

void swiglu(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    double g = static_cast<double>(gate[i]), u = static_cast<double>(up[i]);
    if (limit > 0) {
      g = std::min(g, static_cast<double>(limit));
      u = std::clamp(u, -static_cast<double>(limit), static_cast<double>(limit));
    }
    out[i] = static_cast<float>(g * sigmoid_of(g) * u * static_cast<double>(weight));
  }
}

void exp_all(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(exp_of(static_cast<double>(x[i])));
}

void sigmoid_all(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(sigmoid_of(static_cast<double>(x[i])));
}

void stream_collapse(const float* h, const float* pre, int streams, std::int64_t n, float* out) {
  for (std::int64_t d = 0; d < n; ++d) {
    double sum = 0;
    for (int k = 0; k < streams; ++k) sum += static_cast<double>(pre[k]) * static_cast<double>(h[k * n + d]);
    out[d] = static_cast<float>(sum);
  }
}

void stream_mix(float* h, const float* y, const float* post, const float* comb, int streams, std::int64_t n) {
  constexpr int kMostStreams = 16;
  SEEKLINE_CHECK(streams <= kMostStreams, "more residual streams than a kernel holds");
  double old[kMostStreams];
  for (std::int64_t d = 0; d < n; ++d) {
    for (int j = 0; j < streams; ++j) old[j] = static_cast<double>(h[j * n + d]);
    for (int k = 0; k < streams; ++k) {
      double sum = static_cast<double>(post[k]) * static_cast<double>(y[d]);
      for (int j = 0; j < streams; ++j) sum += static_cast<double>(comb[j * streams + k]) * old[j];
      h[k * n + d] = static_cast<float>(sum);
    }
  }
}

Kernels make_exact(const Kernels& best) {
  Kernels k = best;
  k.prepared_bytes = prepared_bytes;
  k.prepare = portable::prepare;
  k.matmul_scratch_bytes = matmul_scratch_bytes;
  k.matmul = matmul;
  k.transposed_scratch_bytes = transposed_scratch_bytes;
  k.matmul_transposed = matmul_transposed;
  k.query_bytes = portable::query_bytes;
  k.prepare_query = portable::prepare_query;
  k.tile_bytes = portable::tile_bytes;
  k.load_tile = portable::load_tile;
  k.attend_scratch_bytes = attend_scratch_bytes;
  k.attend = attend;
  k.index_query_bytes = portable::index_query_bytes;
  k.prepare_index_query = portable::prepare_index_query;
  k.index_scores = portable::index_scores;
  k.dot = dot;
  k.dot3 = dot3;
  k.axpy = portable::axpy;
  k.swiglu = swiglu;
  k.exp = exp_all;
  k.sigmoid = sigmoid_all;
  k.stream_collapse = stream_collapse;
  k.stream_mix = stream_mix;
  return k;
}

}  // namespace

const Kernels& exact_kernels() {
  static const Kernels exact = [] {
    level = &kernels();
    return make_exact(*level);
  }();
  return exact;
}

}  // namespace seekline
