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
inline constexpr std::int64_t kRunAhead = 4096;

/// Tokens that are too many for one pass (or anything else): in as few passes as can be, as even as can be.
struct Passes {
  std::int64_t all, each;
  int count;

  SEEKLINE_MEMBER Passes(std::int64_t tokens, std::int64_t most)
      : all(tokens), count(static_cast<int>((tokens + most - 1) / most)) {
    each = count > 0 ? (tokens + count - 1) / count : 0;
  }
  SEEKLINE_MEMBER std::int64_t first(int pass) const { return pass * each; }
  SEEKLINE_MEMBER std::int64_t tokens(int pass) const {
    return first(pass) + each < all ? each : all - first(pass);
  }
};

/// Of a row of `bytes`, what each of several passes fetches.
SEEKLINE_SIMD std::int64_t fetch_share(std::int64_t bytes, int passes) {
  return passes == 1 ? bytes : (bytes / passes + 63) / 64 * 64;
}

/// Bytes of a run, counted from the beginning of a row, that have been fetched when its first pass begins.
SEEKLINE_SIMD std::int64_t fetched_ahead(std::int64_t bytes, int passes) {
  return kRunAhead + (passes - 1) * fetch_share(bytes, passes);
}

/// What to fetch while a group of R rows is read, in one pass or several: lines that stand further in their
/// runs, and behind a run's end the beginning of a run of the weights that come next. Memory works at all
/// times that way: with several passes each fetches its share of the lines, and all of a row's are there when
/// the first pass comes to them.
template <int R>
struct Fetching {
  std::int64_t within;     ///< bytes of a row for which lines stand `near`, then `far`
  std::int64_t near, far;  ///< bytes from a line to the one to fetch, the same for all rows
  int passes;              ///< a line every so many steps

  /// Rows are `bytes` long, `within` a multiple of `step`; `next` may be null.
  SEEKLINE_MEMBER Fetching(const RowRuns<R>& runs, std::int64_t i, const std::uint8_t* const* row,
                           std::int64_t bytes, std::int64_t step, const std::uint8_t* next, int pass = 0,
                           int of_passes = 1)
      : passes(of_passes) {
    const std::int64_t left = (runs.each - i) * bytes, share = fetch_share(bytes, passes);
    const std::int64_t ahead = fetched_ahead(bytes, passes) + pass * share;
    if (passes == 1) {
      within = left <= ahead ? 0 : left - ahead < bytes ? (left - ahead) / step * step : bytes;
    } else {
      within = ahead + share <= left ? bytes : 0;
    }
    near = ahead;
    far = next ? next - row[0] + ahead - left : 0;  // the next weights' runs are as long
  }
};

/// Fetches the lines of R rows that stand `ahead` of those read, step by step of kBytes: those of every step,
/// or with kSeveral passes those of one every `passes` steps.
template <int R, std::int64_t kBytes, bool kSeveral>
struct Pace {
  const std::uint8_t* const* row;
  std::int64_t ahead, fetched;
  int passes, steps = 1;

  SEEKLINE_MEMBER Pace(const std::uint8_t* const* rows, std::int64_t begin, std::int64_t distance,
                       int of_passes)
      : row(rows), ahead(distance), fetched(begin), passes(of_passes) {}
  SEEKLINE_MEMBER void step(std::int64_t at) {
    if constexpr (!kSeveral) {
      fetch(at);
    } else if (--steps == 0) {
      fetch(fetched);
      fetched += kBytes;
      steps = passes;
    }
  }

 private:
  SEEKLINE_MEMBER void fetch(std::int64_t from) const {
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
#pragma GCC unroll 2
      for (std::int64_t line = 0; line < kBytes; line += 64) fetch_line(row[r] + from + ahead + line);
  }
};

/// Where every row has `bytes` of scales of its own: those of the rows that follow these in their runs.
template <int R>
SEEKLINE_SIMD void fetch_scales(const std::uint8_t* const* scales, std::int64_t bytes) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r)
    for (std::int64_t at = 0; at < bytes; at += 64) fetch_line(scales[r] + bytes + at);
}

}  // namespace seekline::simd
