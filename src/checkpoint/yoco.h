// YOCO ("you only cache once"): a decoder whose upper layers share one memory. Its layout is this engine's
// own (docs/yoco.md); dense parts are named as in llama checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/llama.h"

namespace seekline {

struct YocoConfig {
  LlamaConfig dense;             ///< everything that the layers have in common with llama's
  std::int64_t num_self_layers;  ///< lower layers: attention over a window of their own; may be 0
  std::int64_t sliding_window;

  bool is_self(std::int64_t layer) const { return layer < num_self_layers; }
};

/// Throws Error(kUnsupported | kBadFile) naming every key that is missing, absurd, contradictory or unknown.
YocoConfig parse_yoco_config(const nlohmann::json& config, const std::string& subject);

struct YocoWeights {
  WeightView embed, head;  ///< the same view where the head is tied
  std::vector<float> norm;
  std::vector<LlamaLayerWeights> layers;  ///< upper layers have no k_proj and v_proj
  std::vector<float> memory_norm;         ///< of what the lower layers hand up
  WeightView memory_k, memory_v;          ///< [kv_heads * head_dim, hidden]
};

/// Takes every tensor; `set.finish()` is the caller's.
YocoWeights load_yoco_weights(const YocoConfig& config, WeightSet& set);
std::vector<TensorSpec> yoco_tensor_specs(const YocoConfig& config);

}  // namespace seekline
