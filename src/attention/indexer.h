// Indexer: scores the index keys of a store for each query token and selects the rows that attention reads;
// the hierarchical form publishes a pool of blocks that later layers select from.
#pragma once

#include <cstdint>

#include "attention/batch.h"
#include "kernels/compute.h"

namespace seekline {

/// A list of row (or block) indices per flat token, ascending.
struct Selection {
  std::int32_t* items = nullptr;   ///< [tokens, capacity]
  std::int32_t* counts = nullptr;  ///< [tokens]
  std::int64_t capacity = 0;

  const std::int32_t* list(std::int64_t row) const { return items + row * capacity; }
  bool empty() const { return items == nullptr; }
  /// The lists from `row` on.
  Selection from(std::int64_t row) const { return {items + row * capacity, counts + row, capacity}; }
};

/// An empty selection for `tokens` tokens, in the arena.
Selection new_selection(Arena& arena, std::int64_t tokens, std::int64_t capacity);

struct IndexRequest {
  int layer = 0;                    ///< who asks, for the ledger
  const Store* keys = nullptr;      ///< index keys; a query at position t may see rows < (t + 1) / m
  MatrixView<const float> queries;  ///< [tokens, heads * width], rotated; not yet quantized
  MatrixView<const float> weights;  ///< [tokens, heads], all factors included
  int heads = 0;
  const Selection* within = nullptr;  ///< pool to select within; null: all eligible rows
  int pool_block_rows = 0;
  Selection* rows = nullptr;  ///< result: the best `capacity` rows
  Selection* pool = nullptr;  ///< result where not null: the best `capacity` blocks
};

void select_rows(Compute& compute, const TokenBatch& batch, const IndexRequest& request);

}  // namespace seekline
