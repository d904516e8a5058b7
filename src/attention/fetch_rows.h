// Cache rows that are asked for before they are read.
#pragma once

#include "formats/rows.h"
#include "kernels/table.h"

namespace seekline {

/// Channels [first, first + width) of some rows, into the second cache: rows lie anywhere, and those of the
/// next tile are on their way while this one is worked on.
inline void fetch_rows(const RowLayout& layout, const RowRef* rows, int count, int first, int width) {
  const auto byte_of = [&](int channel) {
    return channel < layout.coded ? channel * layout.code_bits / 8
                                  : layout.code_bytes() + (channel - layout.coded) * layout.plain_bytes;
  };
  const int begin = byte_of(first), end = byte_of(first + width);
  for (int r = 0; r < count; ++r) {
    for (int at = begin; at < end; at += 64) __builtin_prefetch(rows[r].data + at, 0, 2);
    if (layout.blocks > 0) __builtin_prefetch(rows[r].scale, 0, 2);
  }
}

}  // namespace seekline
