// A tensor as a config implies it: for synthetic checkpoints and for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace seekline {

/// What a tensor is for, as far as the synth formula tells tensors apart (synth_formula.h).
enum class TensorRole : std::uint8_t {
  kLinear,        ///< weights with `fan_in` inputs, in whatever dtype
  kE4M3Scale,     ///< ue8m0 block scales of an e4m3 linear with `fan_in` inputs
  kE2M1Scale,     ///< ue8m0 block scales of an e2m1 linear with `fan_in` inputs
  kInverseScale,  ///< F32 block scales of V3 ("weight_scale_inv")
  kTable,         ///< e4m3 rows that are looked up, not multiplied (Engram)
  kTableScale,
  kEmbedding,
  kNorm,      ///< norm weights, Engram's q_weight and k_weight, the scale of a hyper-connection
  kBias,      ///< biases of all kinds, the base of a hyper-connection
  kPosition,  ///< `ape`
  kSink,
  kTokenExperts,  ///< `tid2eid`: expert ids, distinct within a row
};

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;  ///< as stored: an I8 weight has half its logical columns
  TensorRole role = TensorRole::kLinear;
  std::int64_t fan_in =
      0;  ///< inputs K of a linear and its scales, experts to choose from for kTokenExperts; 0 elsewhere
  int shard = 0;  ///< from 0, in the released layout

  std::int64_t bytes() const;
};

}  // namespace seekline
