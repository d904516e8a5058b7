// Several cache plans side by side: as text, JSON, CSV and curves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "seekline/cache_plan.h"

namespace seekline {

struct NamedPlan {
  std::string name;  ///< the preset's
  CachePlan plan;    ///< in the rows asked for
  CachePlan bf16;    ///< the same with every row in bf16
};

/// Contexts of curves and CSV: 128, 256, ... 1,048,576.
std::vector<std::int64_t> curve_contexts();

std::string compare_text(const std::vector<NamedPlan>& plans, std::int64_t context);

/// {"context": N, "models": [{"name", "bf16_stored_bytes_per_token", and all of plan_json but stores and
/// layers}]}
nlohmann::json compare_json(const std::vector<NamedPlan>& plans, std::int64_t context);

/// A line per model and context of curve_contexts(), with a header line.
std::string compare_csv(const std::vector<NamedPlan>& plans);

/// Draws stored bytes by model, reads and cache size against context with gnuplot; the ending of `path` (svg,
/// png) names the format. Throws Error(kUsage) for another ending, Error(kNotFound) without gnuplot,
/// Error(kIo) where it fails.
void plot_plans(const std::vector<NamedPlan>& plans, const std::string& path);

}  // namespace seekline
