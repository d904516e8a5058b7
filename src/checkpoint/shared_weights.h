// Weights that several families have in common.
#pragma once

#include <vector>

#include "formats/weight_view.h"

namespace seekline {

struct ExpertWeights {
  WeightView w1, w3;  ///< [moe_intermediate, hidden]: gate and up
  WeightView w2;      ///< [hidden, moe_intermediate]
};

struct HyperConnectionWeights {
  WeightView fn;             ///< F32 [(2 + hc) * hc, hc * hidden]
  std::vector<float> base;   ///< [(2 + hc) * hc]
  std::vector<float> scale;  ///< [3]
};

/// A compressor of m tokens into one latent of `width` channels.
struct CompressorWeights {
  WeightView wkv;           ///< [width, hidden]; [2 * width, hidden] where groups overlap
  WeightView wgate;         ///< the same shape; empty where m = 1 (no gate)
  std::vector<float> norm;  ///< [width]
  std::vector<float> ape;   ///< [m, rows of wgate], added to the gate; may be empty
};

}  // namespace seekline
