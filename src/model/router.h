// Which experts a token goes to, and with what weight.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/compute.h"

namespace seekline {

enum class RouterScore : std::uint8_t {
  kSqrtSoftplus,  ///< V4, V4.1
};

struct RouterShape {
  RouterScore score = RouterScore::kSqrtSoftplus;
  int experts = 0, top = 0;
  bool normalise = true;  ///< weights divided by their sum (only where top > 1)
  float sum_eps = 0;      ///< added to that sum
  float scaling = 1;      ///< routed_scaling_factor
  float temperature = 1;  ///< gate_temp
};

/// Experts of each token in ascending order of id, and their weights.
struct Routing {
  std::int32_t* experts = nullptr;  ///< [tokens, top]
  float* weights = nullptr;         ///< [tokens, top]
  std::int64_t tokens = 0;
  int top = 0;
};

/// logits[experts] of one token -> `top` experts (ascending) and weights; selection by score + bias (may be
/// null), equal scores: the lower id. `scratch` [2 * experts].
void route_token(const RouterShape& shape, const float* logits, const float* bias, float* scratch,
                 std::int32_t* experts, float* weights);

/// The same for given experts (V4's hash layers): weights only.
void weigh_experts(const RouterShape& shape, const float* logits, const std::int32_t* experts,
                   float* weights);

/// logits [tokens, experts] -> routing in the caller's arena scope.
Routing route(Compute& compute, const RouterShape& shape, MatrixView<const float> logits, const float* bias);

/// Experts from a table [vocab, top] by token id (V4's hash layers), weights from the scores of those
/// experts.
Routing route_by_table(Compute& compute, const RouterShape& shape, MatrixView<const float> logits,
                       const std::int32_t* table, std::span<const std::int32_t> tokens);

}  // namespace seekline
