// DeepSeek-V4.1: assembles shared parts into the one forward of the family.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "model/network.h"

namespace seekline {

/// Throws Error with everything that is wrong with config and weights.
std::unique_ptr<Network> load_deepseek_v41(const Checkpoint& checkpoint, const nlohmann::json& config,
                                           const Tokenizer* tokenizer, const NumericSettings& settings);

}  // namespace seekline
