// DeepSeek-V4: assembles shared parts into the one forward of the family.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "model/network.h"

namespace seekline {

/// Throws Error with everything that is wrong with config and weights.
std::unique_ptr<Network> load_deepseek_v4(const Checkpoint& checkpoint, const nlohmann::json& config,
                                          const NumericSettings& settings);

}  // namespace seekline
