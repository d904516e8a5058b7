// What the cache plans of all families are built from.
#pragma once

#include <cstdint>

#include <fmt/format.h>

#include "seekline/cache_plan.h"
#include "seekline/settings.h"

namespace seekline {

/// The row format in force: the family's deployed one, bf16 or f32 of the same width. `tail`: last channels
/// that the deployed format keeps as bf16.
inline RowFormat row_format(Rows rows, RowKind deployed, std::int64_t width, std::int64_t tail = 0) {
  const RowKind kind = rows == Rows::kDeployed ? deployed
                       : rows == Rows::kBF16   ? RowKind::kBF16
                                               : RowKind::kF32;
  return {kind, static_cast<int>(width), kind == deployed ? static_cast<int>(tail) : 0};
}

/// A store that `layer` owns and writes, named "layer L what". `ring_rows` 0: growing, with m tokens a row.
inline StoreId add_store(CachePlan& plan, int layer, StoreKind kind, RowFormat row, std::int64_t m,
                         std::int64_t ring_rows, const char* what) {
  const StoreId id = static_cast<StoreId>(plan.stores.size());
  plan.stores.push_back(
      {id, layer, kind, row, static_cast<int>(m), ring_rows, fmt::format("layer {} {}", layer, what)});
  plan.layers[static_cast<std::size_t>(layer)].writes.push_back(id);
  return id;
}

}  // namespace seekline
