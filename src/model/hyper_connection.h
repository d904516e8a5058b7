// Manifold-constrained hyper-connections: hc residual streams per token, mixed at every site (spec: v41,
// "mHC").
#pragma once

#include <vector>

#include "checkpoint/shared_weights.h"
#include "kernels/compute.h"

namespace seekline {

struct HyperConnectionShape {
  int streams = 4;
  std::int64_t hidden = 0;
  int sinkhorn_iterations = 20;
  float eps = 1e-6f;   ///< of the gates and of Sinkhorn
  float norm_eps = 0;  ///< of the RMS statistic
};

/// What one site computes from the streams, per token.
struct SiteMix {
  MatrixView<float> pre;   ///< [tokens, hc]
  MatrixView<float> post;  ///< [tokens, hc]
  MatrixView<float>
      comb;  ///< [tokens, hc * hc], comb[j * hc + k]: how much of old stream j goes into stream k
};

/// h [tokens, hc * hidden] -> the site's weights, in the caller's arena scope.
SiteMix site_mix(Compute& compute, const HyperConnectionShape& shape, const HyperConnectionWeights& weights,
                 MatrixView<const float> h);

/// mixes[(2 + hc) * hc] of one token -> pre, post, comb. Scalar; the truth.
void sinkhorn_mix(const HyperConnectionShape& shape, const HyperConnectionWeights& weights,
                  const float* mixes, float* pre, float* post, float* comb);

/// out = rms_norm(sum_k pre[k] * h[k]) * norm
void collapse_and_norm(Compute& compute, const HyperConnectionShape& shape, MatrixView<const float> h,
                       MatrixView<const float> pre, const std::vector<float>& norm, MatrixView<float> out);

/// h[k] = post[k] * y + sum_j comb[j, k] * h[j]
void mix_streams(Compute& compute, const HyperConnectionShape& shape, const SiteMix& mix,
                 MatrixView<const float> y, MatrixView<float> h);

/// V4's end of the stack: the gates that collapse the streams, [tokens, hc], in the caller's arena scope.
MatrixView<float> hyper_head(Compute& compute, const HyperConnectionShape& shape,
                             const HyperConnectionWeights& weights, MatrixView<const float> h);

}  // namespace seekline
