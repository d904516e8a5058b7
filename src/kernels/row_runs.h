// Which rows of a weight are multiplied together.
#pragma once

#include <cstdint>

#include "kernels/simd.h"

namespace seekline::simd {

/// Rows [begin, end) as R runs of neighbours, read side by side: group i has row i of every run, the last
/// group the rows left over. A run is read from end to end without a gap; CPUs follow such streams with
/// their own prefetches, which rows that lie next to each other and end together break off at every row.
template <int R>
struct RowRuns {
  std::int64_t first, each, rest;

  SEEKLINE_MEMBER RowRuns(std::int64_t begin, std::int64_t end)
      : first(begin), each((end - begin) / R), rest((end - begin) % R) {}
  SEEKLINE_MEMBER std::int64_t groups() const { return each + (rest > 0 ? 1 : 0); }
  /// How many rows of group i are rows of its own; beyond them the last is repeated.
  SEEKLINE_MEMBER int rows(std::int64_t i) const { return i < each ? R : static_cast<int>(rest); }
  SEEKLINE_MEMBER std::int64_t row(std::int64_t i, int r) const {
    return i < each ? first + r * each + i : first + R * each + (r < rest ? r : rest - 1);
  }
};

/// Bytes between a line that is read and the line of its run that is fetched with it.
inline constexpr std::int64_t kRunAhead = 2048;

/// What to fetch while a group of R rows is read: the line that stands kRunAhead further in its run, and
/// behind a run's end the beginning of a run of the weights that come next.
template <int R>
struct Fetching {
  std::int64_t within;  ///< bytes of a row for which near[r] + at is that line; then far[r] + at
  const std::uint8_t *near[R], *far[R];

  /// Rows are `bytes` long, `within` a multiple of `step`; `next` may be null.
  SEEKLINE_MEMBER Fetching(const RowRuns<R>& runs, std::int64_t i, const std::uint8_t* const* row,
                           std::int64_t bytes, std::int64_t step, const std::uint8_t* next) {
    const std::int64_t left = (runs.each - i) * bytes;
    within = left <= kRunAhead ? 0 : left - kRunAhead < bytes ? (left - kRunAhead) / step * step : bytes;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      near[r] = row[r] + kRunAhead;
      far[r] = next ? next + r * runs.each * bytes + kRunAhead - left : row[r];
    }
  }
};

/// Where every row has `bytes` of scales of its own: those of the rows that follow these in their runs.
template <int R>
SEEKLINE_SIMD void fetch_scales(const std::uint8_t* const* scales, std::int64_t bytes) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    for (std::int64_t at = 0; at < bytes; at += 64)
      _mm_prefetch(reinterpret_cast<const char*>(scales[r] + bytes + at), _MM_HINT_T0);
}

}  // namespace seekline::simd
