#include "model/router.h"

#include <algorithm>
#include <cmath>

#include "attention/select.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

float score_of(const RouterShape& shape, float logit) {
  const double x = static_cast<double>(logit) / static_cast<double>(shape.temperature);
  const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
  return static_cast<float>(std::sqrt(softplus));
}

void finish_weights(const RouterShape& shape, float* weights) {
  if (shape.normalise && shape.top > 1) {
    float sum = 0;
    for (int i = 0; i < shape.top; ++i) sum += weights[i];
    sum += shape.sum_eps;
    for (int i = 0; i < shape.top; ++i) weights[i] /= sum;
  }
  for (int i = 0; i < shape.top; ++i) weights[i] *= shape.scaling;
}

}  // namespace

void weigh_experts(const RouterShape& shape, const float* logits, const std::int32_t* experts,
                   float* weights) {
  for (int i = 0; i < shape.top; ++i) weights[i] = score_of(shape, logits[experts[i]]);
  finish_weights(shape, weights);
}

void route_token(const RouterShape& shape, const float* logits, const float* bias, float* scratch,
                 std::int32_t* experts, float* weights) {
  float* scores = scratch;
  float* choice = scratch + shape.experts;
  for (int e = 0; e < shape.experts; ++e) {
    scores[e] = score_of(shape, logits[e]);
    choice[e] = bias ? scores[e] + bias[e] : scores[e];
  }
  select_top_k(choice, shape.experts, shape.top, experts);
  for (int i = 0; i < shape.top; ++i) weights[i] = scores[experts[i]];
  finish_weights(shape, weights);
}

Routing route(Compute& compute, const RouterShape& shape, MatrixView<const float> logits, const float* bias) {
  const Routing routing{compute.arena.array<std::int32_t>(logits.rows * shape.top),
                        compute.arena.array<float>(logits.rows * shape.top), logits.rows, shape.top};
  Arena::Scope scope(compute.arena);
  MatrixView<float> scratch = compute.arena.matrix(compute.pool.size(), 2 * std::int64_t{shape.experts});
  compute.pool.split(logits.rows, 1, [&](WorkRange range, int worker) {
    for (std::int64_t r = range.begin; r < range.end; ++r)
      route_token(shape, logits.row(r), bias, scratch.row(worker), routing.experts + r * shape.top,
                  routing.weights + r * shape.top);
  });
  return routing;
}

Routing route_by_table(Compute& compute, const RouterShape& shape, MatrixView<const float> logits,
                       const std::int32_t* table, std::span<const std::int32_t> tokens) {
  const Routing routing{compute.arena.array<std::int32_t>(logits.rows * shape.top),
                        compute.arena.array<float>(logits.rows * shape.top), logits.rows, shape.top};
  for_rows(compute, logits.rows, [&](std::int64_t r) {
    const std::int32_t* row = table + std::int64_t{tokens[static_cast<std::size_t>(r)]} * shape.top;
    std::int32_t* experts = routing.experts + r * shape.top;
    std::copy(row, row + shape.top, experts);
    std::sort(experts, experts + shape.top);
    weigh_experts(shape, logits.row(r), experts, routing.weights + r * shape.top);
  });
  return routing;
}

}  // namespace seekline
