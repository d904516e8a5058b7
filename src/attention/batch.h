// A forward is a flat list of tokens in runs: prefill, chunk, decode, many sequences and replay differ in
// data only.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "cache/sequence_cache.h"
#include "core/arena.h"

namespace seekline {

/// Consecutive tokens of one sequence. At most one run per sequence in a batch.
struct Run {
  SequenceCache* cache = nullptr;
  std::int64_t first_position = 0;
  std::span<const std::int32_t> tokens;
  std::int64_t window_floor = 0;          ///< windows see no position before this one
  std::int64_t decoder_window_floor = 0;  ///< the same in decoder layers
  std::int64_t write_floor = 0;           ///< global rows of groups that end at or before this token are kept
  std::int64_t decoder_from = 0;          ///< index in `tokens` from which decoder layers run
  std::span<const std::int32_t> wanted_logits;  ///< ascending indices into `tokens`, none before decoder_from
};

/// The part of a run that a layer works on.
struct FlatRun {
  SequenceCache* cache = nullptr;
  std::int64_t begin = 0, count = 0;  ///< rows of the flat batch
  std::int64_t first_position = 0;
  std::int64_t window_floor = 0, write_floor = 0;

  /// Rows that it writes to a growing store with a row for every token: those at and above the write floor.
  std::int64_t rows_written() const {
    return std::max<std::int64_t>(0, first_position + count - std::max(first_position, write_floor));
  }
};

/// The flat view of a batch: row r is token `position[r]` of sequence runs[run_of[r]].
struct TokenBatch {
  std::span<const FlatRun> runs;
  std::int64_t count = 0;
  const std::int64_t* position = nullptr;
  const std::int32_t* run_of = nullptr;

  const FlatRun& run(std::int64_t row) const { return runs[static_cast<std::size_t>(run_of[row])]; }
  /// `rows` rows from `first` on. Their runs are the whole ones: FlatRun::begin counts in this batch.
  TokenBatch part(std::int64_t first, std::int64_t rows) const {
    return {runs, rows, position + first, run_of + first};
  }
};

/// Views of all tokens, and of those that the decoder part runs on. They live in the arena scope of the
/// caller.
TokenBatch flatten(Arena& arena, std::span<const Run> runs);
TokenBatch flatten_decoder(Arena& arena, std::span<const Run> runs);

}  // namespace seekline
