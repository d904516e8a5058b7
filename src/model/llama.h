// Dense decoders of `model_type: llama`: the yardstick of every generation.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/llama.h"
#include "model/network.h"

namespace seekline {

CachePlan plan_llama(const LlamaConfig& config, Rows rows);

/// Throws Error with everything that is wrong with config and weights.
std::unique_ptr<Network> load_llama(const Checkpoint& checkpoint, const nlohmann::json& config,
                                    const NumericSettings& settings);

}  // namespace seekline
