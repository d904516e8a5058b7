// The cache plan of DeepSeek-V4, derived from its config.
#pragma once

#include <vector>

#include "attention/compressor.h"
#include "checkpoint/deepseek_v4.h"
#include "seekline/cache_plan.h"
#include "seekline/settings.h"

namespace seekline {

/// Stores of a layer; ids into CachePlan::stores, -1 where there is none. Nothing is shared between layers.
struct V4LayerStores {
  StoreId window = -1;
  StoreId main = -1, tail = -1;             ///< CSA and HCA
  StoreId index_key = -1, index_tail = -1;  ///< CSA
};

struct V4Plan {
  CachePlan plan;
  std::vector<V4LayerStores> layers;
};

V4Plan plan_v4(const V4Config& config, Rows rows);

/// How layer `layer` makes `width` wide entries; its groups overlap in CSA.
CompressorShape v4_compressor_shape(const V4Config& config, std::int64_t layer, std::int64_t width);

}  // namespace seekline
