// Which experts a token goes to, and with what weight.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/compute.h"

namespace seekline {

enum class RouterScore : std::uint8_t {
  kSqrtSoftplus,  ///< V4, V4.1
  kSigmoid,       ///< V3, V3.2
  kSoftmax,       ///< V2: over all experts
};

/// What a group of experts is worth where only the best groups are chosen from, and what becomes of the
/// others.
enum class GroupRule : std::uint8_t {
  kMaximum,  ///< V2: its best expert; experts of other groups count as 0
  kTopTwo,   ///< V3: the sum of its two best; experts of other groups are out
};

struct RouterShape {
  RouterScore score = RouterScore::kSqrtSoftplus;
  int experts = 0, top = 0;
  bool normalise = true;  ///< weights divided by their sum (only where top > 1)
  float sum_eps = 0;      ///< added to that sum
  float scaling = 1;      ///< routed_scaling_factor
  float temperature = 1;  ///< gate_temp
  int groups = 1;         ///< neighbouring experts, the same number in each
  int group_top = 1;      ///< groups to choose from
  GroupRule group_rule = GroupRule::kMaximum;
};

/// Experts of each token in ascending order of id, and their weights.
struct Routing {
  std::int32_t* experts = nullptr;  ///< [tokens, top]
  float* weights = nullptr;         ///< [tokens, top]
  std::int64_t tokens = 0;
  int top = 0;
};

/// logits[experts] of one token -> `top` experts (ascending) and weights; selection by score + bias (may be
/// null), within the best groups; equal scores: the lower id. `scratch` [3 * experts].
void route_token(const RouterShape& shape, const float* logits, const float* bias, float* scratch,
                 std::int32_t* experts, float* weights);

/// The same for given experts (V4's hash layers): weights only. Not for kSoftmax.
void weigh_experts(const RouterShape& shape, const float* logits, const std::int32_t* experts,
                   float* weights);

/// logits [tokens, experts] -> routing in the caller's arena scope.
Routing route(Compute& compute, const RouterShape& shape, MatrixView<const float> logits, const float* bias);

/// Experts from a table [vocab, top] by token id (V4's hash layers), weights from the scores of those
/// experts.
Routing route_by_table(Compute& compute, const RouterShape& shape, MatrixView<const float> logits,
                       const std::int32_t* table, std::span<const std::int32_t> tokens);

}  // namespace seekline
