// Attention of each token over its own list of rows: selected rows of a shared store, then its window. A row
// serves as key and as value, or holds the keys and values of several KV heads.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/compute.h"

namespace seekline {

/// Rows of one format, in position order.
struct RowSegment {
  const RowFormat* format = nullptr;
  const RowRef* rows = nullptr;
  int count = 0;
};

struct GatherQuery {
  const float* q = nullptr;  ///< [heads, key_width]
  float* out = nullptr;      ///< [heads, value_width]; may be q where the widths are equal
  RowSegment segments[2];    ///< attended in this order; either may be empty
};

/// Channels of a row: the keys of all KV heads lie from key_first on, their values from value_first on. Where
/// these overlap, channels serve as both.
struct GatherShape {
  int heads = 0, kv_heads = 1;
  int key_width = 0, value_width = 0;
  int key_first = 0, value_first = 0;
  float scale = 1;
  const float* sinks = nullptr;  ///< [heads], or null: softmax without a sink
};

/// Order of the sums: segments in order, each cut into tiles of kTileRows from its own start
/// (docs/exactness.md). A query without any row gives zeros.
void gather_attend(Compute& compute, const GatherShape& shape, std::span<const GatherQuery> queries);

}  // namespace seekline
