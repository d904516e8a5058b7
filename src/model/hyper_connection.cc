#include "model/hyper_connection.h"

#include <algorithm>
#include <cmath>

#include "kernels/linear.h"

namespace seekline {
namespace {

float sigmoid(float x) { return 1.0f / (1.0f + std::exp(-x)); }

// Divides each row (or column) of m [n, n] by its sum + eps.
void normalise_rows(float* m, int n, float eps) {
  for (int j = 0; j < n; ++j) {
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += m[j * n + k];
    for (int k = 0; k < n; ++k) m[j * n + k] /= sum + eps;
  }
}

void normalise_columns(float* m, int n, float eps) {
  for (int k = 0; k < n; ++k) {
    float sum = 0;
    for (int j = 0; j < n; ++j) sum += m[j * n + k];
    for (int j = 0; j < n; ++j) m[j * n + k] /= sum + eps;
  }
}

void softmax_rows(float* m, int n, float eps) {
  for (int j = 0; j < n; ++j) {
    float* row = m + j * n;
    const float max = *std::max_element(row, row + n);
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += row[k] = std::exp(row[k] - max);
    for (int k = 0; k < n; ++k) row[k] = row[k] / sum + eps;
  }
}

}  // namespace

void sinkhorn_mix(const HyperConnectionShape& shape, const HyperConnectionWeights& weights, const float* mixes,
                  float* pre, float* post, float* comb) {
  const int n = shape.streams;
  const float* base = weights.base.data();
  const float* scale = weights.scale.data();
  for (int k = 0; k < n; ++k) {
    pre[k] = sigmoid(mixes[k] * scale[0] + base[k]) + shape.eps;
    post[k] = 2.0f * sigmoid(mixes[n + k] * scale[1] + base[n + k]);
  }
  for (int i = 0; i < n * n; ++i) comb[i] = mixes[2 * n + i] * scale[2] + base[2 * n + i];
  softmax_rows(comb, n, shape.eps);
  normalise_columns(comb, n, shape.eps);
  for (int i = 1; i < shape.sinkhorn_iterations; ++i) {
    normalise_rows(comb, n, shape.eps);
    normalise_columns(comb, n, shape.eps);
  }
}

SiteMix site_mix(Compute& compute, const HyperConnectionShape& shape, const HyperConnectionWeights& weights,
                 MatrixView<const float> h) {
  const int n = shape.streams;
  const SiteMix mix{compute.arena.matrix(h.rows, n), compute.arena.matrix(h.rows, n),
                    compute.arena.matrix(h.rows, std::int64_t{n} * n)};
  Arena::Scope scope(compute.arena);
  MatrixView<float> mixes = compute.arena.matrix(h.rows, std::int64_t{n} * (2 + n));
  linear(compute, weights.fn, BlockQuantizer::kNone, h, mixes, Arithmetic::kF32);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    const float mean = compute.kernels.sum_squares(h.row(r), h.cols) / static_cast<float>(h.cols);
    const float rstd = 1.0f / std::sqrt(mean + shape.norm_eps);
    for (std::int64_t i = 0; i < mixes.cols; ++i) mixes.row(r)[i] *= rstd;
    sinkhorn_mix(shape, weights, mixes.row(r), mix.pre.row(r), mix.post.row(r), mix.comb.row(r));
  });
  return mix;
}

void collapse_and_norm(Compute& compute, const HyperConnectionShape& shape, MatrixView<const float> h,
                       MatrixView<const float> pre, const std::vector<float>& norm, MatrixView<float> out) {
  for_rows(compute, h.rows, [&](std::int64_t r) {
    compute.kernels.stream_collapse(h.row(r), pre.row(r), shape.streams, shape.hidden, out.row(r));
    compute.kernels.rms_norm(out.row(r), norm.data(), shape.hidden, shape.norm_eps, out.row(r));
  });
}

void mix_streams(Compute& compute, const HyperConnectionShape& shape, const SiteMix& mix, MatrixView<const float> y,
                 MatrixView<float> h) {
  for_rows(compute, h.rows, [&](std::int64_t r) {
    compute.kernels.stream_mix(h.row(r), y.row(r), mix.post.row(r), mix.comb.row(r), shape.streams, shape.hidden);
  });
}

}  // namespace seekline
