// The cache plan as text and JSON: shared by `plan` and `inspect`.
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "seekline/cache_plan.h"

namespace seekline {

/// Stored bytes, window bytes, reads per token at `context`, and one line a store and layer where `tables` is
/// set.
std::string plan_text(const CachePlan& plan, std::int64_t context, bool tables);

/// {"model", "stored_bytes_per_token", "window_bytes", "tail_bytes", "context", "reads": {"main", "window",
/// "index_key", "total"}, "accounting": {..}, "stores": [..], "layers": [..]}
nlohmann::json plan_json(const CachePlan& plan, std::int64_t context);

/// 3514.25 -> "3,514.25", 890 -> "890", or "890.00" with `always`.
std::string decimal_number(double value, bool always = false);

/// Such as "top-512 of layer 20 within pool of layer 20".
std::string select_text(const CachePlan& plan, int layer);

}  // namespace seekline
