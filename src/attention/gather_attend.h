// Attention of each token over its own list of rows: selected rows of a shared store, then its window. One KV head;
// a row serves as key and as value.
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

struct GatherShape {
  int heads = 0;
  int key_width = 0;    ///< first channels of a row
  int value_width = 0;  ///< first channels of a row
  float scale = 1;
  const float* sinks = nullptr;  ///< [heads], or null: softmax without a sink
};

/// Order of the sums: segments in order, each cut into tiles of kTileRows from its own start (docs/exactness.md).
/// A query without any row gives zeros.
void gather_attend(Compute& compute, const GatherShape& shape, std::span<const GatherQuery> queries);

/// Divides by the softmax denominator, the sink's share included; out[width].
void finish_softmax(const Kernels& kernels, const AttendState& state, const float* sink, int width);

}  // namespace seekline
