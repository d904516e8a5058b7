// YOCO: lower layers attend to windows; one memory, made once, serves every upper layer.
#pragma once

#include <memory>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/yoco.h"
#include "model/network.h"

namespace seekline {

/// A window for every lower layer; one growing store, owned by the last of them (by the first layer where
/// there is none) and read whole by every upper layer; these form the decoder part.
CachePlan plan_yoco(const YocoConfig& config, Rows rows);

/// Throws Error with everything that is wrong with config and weights.
std::unique_ptr<Network> load_yoco(const Checkpoint& checkpoint, const nlohmann::json& config,
                                   const NumericSettings& settings);

}  // namespace seekline
