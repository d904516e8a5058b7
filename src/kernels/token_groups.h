// More tokens than are multiplied at once, but too few for a decoded tile.
#pragma once

#include "kernels/simd.h"
#include "kernels/table.h"

namespace seekline::simd {

/// Tokens of a group where up to `most` are multiplied at once and decoding costs about as much as the
/// products: as even as can be. Where it costs little, the first groups had better be whole.
SEEKLINE_SIMD std::int64_t even_groups(std::int64_t tokens, std::int64_t most) {
  const std::int64_t groups = (tokens + most - 1) / most;
  return (tokens + groups - 1) / groups;
}

/// Calls `few` for `each` tokens after the other over one block of rows after the other, so that all groups
/// but the first find their weights in the second cache.
template <class Few>
SEEKLINE_SIMD void in_groups(const Matmul& m, std::int64_t each, std::int64_t row_bytes, Few few) {
  constexpr std::int64_t kBlock = 32;  // a multiple of what e4m3 shares scales over, for which x is scaled
  Matmul part = m;
  for (std::int64_t row = m.row_begin; row < m.row_end; row = part.row_end) {
    part.row_begin = row;
    part.row_end = (row / kBlock + 1) * kBlock;
    if (part.row_end >= m.row_end) part.row_end = m.row_end;
    const std::uint8_t* after = part.row_end < m.row_end ? m.w.data + part.row_end * row_bytes : m.prefetch;
    for (std::int64_t first = 0; first < m.tokens; first += each) {
      const bool last = first + each >= m.tokens;
      part.x = m.x + first;
      part.y = m.y + first;
      part.tokens = last ? m.tokens - first : each;
      part.prefetch = last ? after : nullptr;
      few(part);
    }
  }
}

}  // namespace seekline::simd
