// A tensor as a config implies it: for synthetic checkpoints and for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace seekline {

struct TensorSpec {
  std::string name;
  DType dtype = DType::kBF16;
  std::vector<std::int64_t> shape;
  int shard = 0;           ///< from 0, in the released layout
  std::int64_t fan_in = 0; ///< K of the synth formula for linear weights and their scales; 0 elsewhere
};

}  // namespace seekline
