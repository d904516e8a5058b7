// Sizes of Engram tables in configs that are made, not released.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace seekline {

/// Table sizes are sums of primes that follow from the other Engram keys; whoever changes those need not know
/// them. Configs without Engram stay as they are. Throws nlohmann::json::exception where the keys do not fit
/// together.
void fit_engram_tables(nlohmann::json& config);

}  // namespace seekline
