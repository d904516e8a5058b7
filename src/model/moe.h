// Mixture of experts: tokens grouped per expert, each expert's weights read once, sums in expert order.
#pragma once

#include <span>

#include "checkpoint/shared_weights.h"
#include "kernels/compute.h"
#include "model/router.h"

namespace seekline {

struct ExpertShape {
  BlockQuantizer quantizer = BlockQuantizer::kNone;  ///< of the inputs of w1, w3 and w2
  float swiglu_limit = 0;                            ///< <= 0: no clamp
  StepPart shared_part = StepPart::kSharedExperts;   ///< what the time of the shared experts is charged to
  bool weigh_output = false;  ///< V2, V3: the routing weight multiplies what w2 gives, not what it takes
};

/// y = sum over a token's experts, in ascending order of id, of w2(weight * swiglu(w1 x, w3 x)), or of
/// weight * w2(swiglu(w1 x, w3 x)); shared experts last; everything summed in f32. x, y [tokens, hidden].
void mixture(Compute& compute, const ExpertShape& shape, std::span<const ExpertWeights> experts,
             std::span<const ExpertWeights> shared, const Routing& routing, MatrixView<const float> x,
             MatrixView<float> y);

}  // namespace seekline
