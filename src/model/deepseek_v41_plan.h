// The cache plan of DeepSeek-V4.1, derived from its config.
#pragma once

#include "checkpoint/deepseek_v41.h"
#include "seekline/cache_plan.h"
#include "seekline/settings.h"

namespace seekline {

/// Stores of a KV source and of every layer's window; ids into CachePlan::stores, -1 where there is none.
struct V41LayerStores {
  StoreId window = -1;
  StoreId main = -1, index_key = -1, tail = -1;  ///< owned by this layer (KV sources)
};

struct V41Plan {
  CachePlan plan;
  std::vector<V41LayerStores> layers;
};

V41Plan plan_v41(const V41Config& config, Rows rows);

}  // namespace seekline
