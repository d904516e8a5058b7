#include "model/router.h"

#include <algorithm>
#include <cmath>

#include "attention/select.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

float score_of(const RouterShape& shape, float logit) {
  const double x = static_cast<double>(logit) / static_cast<double>(shape.temperature);
  if (shape.score == RouterScore::kSigmoid) return static_cast<float>(1.0 / (1.0 + std::exp(-x)));
  const double softplus = x > 20.0 ? x : std::log1p(std::exp(x));
  return static_cast<float>(std::sqrt(softplus));
}

void score_all(const RouterShape& shape, const float* logits, float* scores) {
  if (shape.score != RouterScore::kSoftmax) {
    for (int e = 0; e < shape.experts; ++e) scores[e] = score_of(shape, logits[e]);
    return;
  }
  const double max = static_cast<double>(*std::max_element(logits, logits + shape.experts));
  double sum = 0;
  for (int e = 0; e < shape.experts; ++e) sum += std::exp(static_cast<double>(logits[e]) - max);
  for (int e = 0; e < shape.experts; ++e)
    scores[e] = static_cast<float>(std::exp(static_cast<double>(logits[e]) - max) / sum);
}

float group_score(GroupRule rule, const float* choice, int size) {
  float best = -INFINITY, second = -INFINITY;
  for (int e = 0; e < size; ++e) {
    second = std::max(second, std::min(best, choice[e]));
    best = std::max(best, choice[e]);
  }
  return rule == GroupRule::kMaximum ? best : best + second;
}

// Takes the experts of all but the best groups out of the choice; of equal groups the lower one stays.
void keep_best_groups(const RouterShape& shape, float* choice, float* group_scores) {
  if (shape.group_top >= shape.groups) return;
  const int size = shape.experts / shape.groups;
  for (int g = 0; g < shape.groups; ++g)
    group_scores[g] = group_score(shape.group_rule, choice + g * size, size);
  const float out = shape.group_rule == GroupRule::kMaximum ? 0.0f : -INFINITY;
  for (int g = 0; g < shape.groups; ++g) {
    int better = 0;
    for (int other = 0; other < shape.groups; ++other)
      better +=
          group_scores[other] > group_scores[g] || (group_scores[other] == group_scores[g] && other < g);
    if (better >= shape.group_top) std::fill_n(choice + g * size, size, out);
  }
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
  score_all(shape, logits, scores);
  for (int e = 0; e < shape.experts; ++e) choice[e] = bias ? scores[e] + bias[e] : scores[e];
  keep_best_groups(shape, choice, scratch + 2 * shape.experts);
  select_top_k(choice, shape.experts, shape.top, experts);
  for (int i = 0; i < shape.top; ++i) weights[i] = scores[experts[i]];
  finish_weights(shape, weights);
}

Routing route(Compute& compute, const RouterShape& shape, MatrixView<const float> logits, const float* bias) {
  const Routing routing{compute.arena.array<std::int32_t>(logits.rows * shape.top),
                        compute.arena.array<float>(logits.rows * shape.top), logits.rows, shape.top};
  Arena::Scope scope(compute.arena);
  MatrixView<float> scratch = compute.arena.matrix(compute.pool.size(), 3 * std::int64_t{shape.experts});
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
