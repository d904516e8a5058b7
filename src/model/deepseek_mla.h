// DeepSeek-V2, V3 and V3.2: assembles shared parts into the one forward of the three families.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/deepseek_mla.h"
#include "model/network.h"

namespace seekline {

/// Throws Error with everything that is wrong with config and weights, and Error(kUsage) where pre-merged
/// weights are asked for and the model quantizes what they would swallow.
std::unique_ptr<Network> load_deepseek_mla(const Checkpoint& checkpoint, const nlohmann::json& config,
                                           const NumericSettings& settings);

/// Weights by the part that reads them.
std::vector<WeightPart> mla_weight_parts(const MlaConfig& config, const MlaWeights& weights);

}  // namespace seekline
