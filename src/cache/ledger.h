// Counts the bytes of one sequence's cache: written and read, by store and reading layer.
#pragma once

#include <cstdint>
#include <vector>

#include "seekline/cache_plan.h"

namespace seekline {

/// Whoever touches a row says so here, at the place where it is touched; tests hold the sums against the
/// plan.
class Ledger {
 public:
  explicit Ledger(const CachePlan& plan)
      : plan_(&plan), read_(plan.layers.size() * plan.stores.size()), written_(plan.stores.size()) {}

  void read(int layer, StoreId store, std::int64_t rows) {
    read_[cell(layer, store)] += rows * row_bytes(store);
  }
  void wrote(StoreId store, std::int64_t rows) {
    written_[static_cast<std::size_t>(store)] += rows * row_bytes(store);
  }

  std::int64_t bytes_read(int layer, StoreId store) const { return read_[cell(layer, store)]; }
  std::int64_t bytes_written(StoreId store) const { return written_[static_cast<std::size_t>(store)]; }

  /// What layer `layer` has read since the last reset, by kind. Tails are state, not cache reads.
  Reads layer_reads(int layer) const {
    Reads reads;
    for (const Store& store : plan_->stores) {
      const std::int64_t bytes = bytes_read(layer, store.id);
      if (store.kind == StoreKind::kMain) reads.main += bytes;
      if (store.kind == StoreKind::kWindow) reads.window += bytes;
      if (store.kind == StoreKind::kIndexKey) reads.index_key += bytes;
    }
    return reads;
  }

  /// The same summed over the layers.
  Reads reads() const {
    Reads sum;
    for (int layer = 0; layer < static_cast<int>(plan_->layers.size()); ++layer) {
      const Reads reads = layer_reads(layer);
      sum.main += reads.main;
      sum.window += reads.window;
      sum.index_key += reads.index_key;
    }
    return sum;
  }

  /// Starts a new step.
  void reset() {
    read_.assign(read_.size(), 0);
    written_.assign(written_.size(), 0);
  }

 private:
  std::size_t cell(int layer, StoreId store) const {
    return static_cast<std::size_t>(layer) * plan_->stores.size() + static_cast<std::size_t>(store);
  }
  std::int64_t row_bytes(StoreId store) const {
    return plan_->stores[static_cast<std::size_t>(store)].row.bytes();
  }

  const CachePlan* plan_;
  std::vector<std::int64_t> read_, written_;
};

}  // namespace seekline
