// The cache plan of DeepSeek-V2, V3 and V3.2, derived from their config.
#pragma once

#include <vector>

#include "checkpoint/deepseek_mla.h"
#include "seekline/cache_plan.h"
#include "seekline/settings.h"

namespace seekline {

/// Ids into CachePlan::stores. A main row holds the latent (kv_lora_rank channels), then the rotary key.
struct MlaLayerStores {
  StoreId main = -1;
  StoreId index_key = -1;  ///< V3.2; -1: none
};

struct MlaPlan {
  CachePlan plan;
  std::vector<MlaLayerStores> layers;
};

/// Every layer owns its rows. V2 and V3 keep them as bf16 and read all of them; with Rows::kFp8 they are
/// `mla_fp8`. V3.2 keeps `mla_fp8` rows and `index_fp8` keys and reads the best index_topk.
MlaPlan plan_mla(const MlaConfig& config, Rows rows);

}  // namespace seekline
