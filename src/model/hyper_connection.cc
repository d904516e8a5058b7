#include "model/hyper_connection.h"

#include <algorithm>
#include <cmath>

#include "kernels/linear.h"

namespace seekline {
namespace {

constexpr int kMostStreams = 16;

// The 24 numbers of a site are few: their functions are computed in f64 and rounded once.
double sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The share of a stream in a sublayer's input.
float gate(double logit, const HyperConnectionShape& shape) {
  return static_cast<float>(sigmoid(logit) + static_cast<double>(shape.eps));
}

// fn * h / rms(h), [tokens, rows of fn].
MatrixView<float> normalised_mixes(Compute& compute, const HyperConnectionShape& shape,
                                   const HyperConnectionWeights& weights, MatrixView<const float> h) {
  MatrixView<float> mixes = compute.arena.matrix(h.rows, weights.fn.rows);
  linear(compute, weights.fn, BlockQuantizer::kNone, h, mixes, Arithmetic::kF32);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    const double mean = compute.kernels.dot_exact(h.row(r), h.row(r), h.cols) / static_cast<double>(h.cols);
    const float rstd = static_cast<float>(1.0 / std::sqrt(mean + static_cast<double>(shape.norm_eps)));
    for (std::int64_t i = 0; i < mixes.cols; ++i) mixes.row(r)[i] *= rstd;
  });
  return mixes;
}

// Divides each row (or column) of m [n, n] by its sum + eps.
void normalise_rows(double* m, int n, double eps) {
  for (int j = 0; j < n; ++j) {
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += m[j * n + k];
    for (int k = 0; k < n; ++k) m[j * n + k] /= sum + eps;
  }
}

void normalise_columns(double* m, int n, double eps) {
  for (int k = 0; k < n; ++k) {
    double sum = 0;
    for (int j = 0; j < n; ++j) sum += m[j * n + k];
    for (int j = 0; j < n; ++j) m[j * n + k] /= sum + eps;
  }
}

void softmax_rows(double* m, int n, double eps) {
  for (int j = 0; j < n; ++j) {
    double* row = m + j * n;
    const double max = *std::max_element(row, row + n);
    double sum = 0;
    for (int k = 0; k < n; ++k) sum += row[k] = std::exp(row[k] - max);
    for (int k = 0; k < n; ++k) row[k] = row[k] / sum + eps;
  }
}

}  // namespace

void sinkhorn_mix(const HyperConnectionShape& shape, const HyperConnectionWeights& weights,
                  const float* mixes, float* pre, float* post, float* comb) {
  const int n = shape.streams;
  const float* base = weights.base.data();
  const float* scale = weights.scale.data();
  const auto logit = [&](int i, int group) {
    return static_cast<double>(mixes[i]) * static_cast<double>(scale[group]) + static_cast<double>(base[i]);
  };
  const double eps = static_cast<double>(shape.eps);
  for (int k = 0; k < n; ++k) {
    pre[k] = gate(logit(k, 0), shape);
    post[k] = static_cast<float>(2.0 * sigmoid(logit(n + k, 1)));
  }
  double m[kMostStreams * kMostStreams];
  for (int i = 0; i < n * n; ++i) m[i] = logit(2 * n + i, 2);
  softmax_rows(m, n, eps);
  normalise_columns(m, n, eps);
  for (int i = 1; i < shape.sinkhorn_iterations; ++i) {
    normalise_rows(m, n, eps);
    normalise_columns(m, n, eps);
  }
  for (int i = 0; i < n * n; ++i) comb[i] = static_cast<float>(m[i]);
}

SiteMix site_mix(Compute& compute, const HyperConnectionShape& shape, const HyperConnectionWeights& weights,
                 MatrixView<const float> h) {
  const PartScope part(compute.profile, StepPart::kStreams);
  const int n = shape.streams;
  const SiteMix mix{compute.arena.matrix(h.rows, n), compute.arena.matrix(h.rows, n),
                    compute.arena.matrix(h.rows, std::int64_t{n} * n)};
  Arena::Scope scope(compute.arena);
  const MatrixView<float> mixes = normalised_mixes(compute, shape, weights, h);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    sinkhorn_mix(shape, weights, mixes.row(r), mix.pre.row(r), mix.post.row(r), mix.comb.row(r));
  });
  return mix;
}

MatrixView<float> hyper_head(Compute& compute, const HyperConnectionShape& shape,
                             const HyperConnectionWeights& weights, MatrixView<const float> h) {
  const MatrixView<float> pre = normalised_mixes(compute, shape, weights, h);
  const double scale = static_cast<double>(weights.scale[0]);
  for (std::int64_t r = 0; r < pre.rows; ++r)
    for (int k = 0; k < shape.streams; ++k)
      pre.row(r)[k] = gate(static_cast<double>(pre.row(r)[k]) * scale +
                               static_cast<double>(weights.base[static_cast<std::size_t>(k)]),
                           shape);
  return pre;
}

void collapse_and_norm(Compute& compute, const HyperConnectionShape& shape, MatrixView<const float> h,
                       MatrixView<const float> pre, const std::vector<float>& norm, MatrixView<float> out) {
  const PartScope part(compute.profile, StepPart::kStreams);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    compute.kernels.stream_collapse(h.row(r), pre.row(r), shape.streams, shape.hidden, out.row(r));
    compute.kernels.rms_norm(out.row(r), norm.data(), shape.hidden, shape.norm_eps, out.row(r));
  });
}

void mix_streams(Compute& compute, const HyperConnectionShape& shape, const SiteMix& mix,
                 MatrixView<const float> y, MatrixView<float> h) {
  const PartScope part(compute.profile, StepPart::kStreams);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    compute.kernels.stream_mix(h.row(r), y.row(r), mix.post.row(r), mix.comb.row(r), shape.streams,
                               shape.hidden);
  });
}

}  // namespace seekline
