#include "attention/batch.h"

#include <new>

namespace seekline {
namespace {

TokenBatch flatten_from(Arena& arena, std::span<const Run> runs, bool decoder) {
  FlatRun* flat = arena.array<FlatRun>(static_cast<std::int64_t>(runs.size()));
  std::int64_t count = 0;
  for (std::size_t r = 0; r < runs.size(); ++r) {
    const Run& run = runs[r];
    const std::int64_t skipped = decoder ? run.decoder_from : 0;
    const std::int64_t tokens = static_cast<std::int64_t>(run.tokens.size()) - skipped;
    new (flat + r) FlatRun{run.cache,
                           count,
                           tokens,
                           run.first_position + skipped,
                           decoder ? run.decoder_window_floor : run.window_floor,
                           run.write_floor};
    count += tokens;
  }
  std::int64_t* position = arena.array<std::int64_t>(count);
  std::int32_t* run_of = arena.array<std::int32_t>(count);
  for (std::size_t r = 0; r < runs.size(); ++r) {
    for (std::int64_t i = 0; i < flat[r].count; ++i) {
      position[flat[r].begin + i] = flat[r].first_position + i;
      run_of[flat[r].begin + i] = static_cast<std::int32_t>(r);
    }
  }
  return {{flat, runs.size()}, count, position, run_of};
}

}  // namespace

TokenBatch flatten(Arena& arena, std::span<const Run> runs) { return flatten_from(arena, runs, false); }
TokenBatch flatten_decoder(Arena& arena, std::span<const Run> runs) {
  return flatten_from(arena, runs, true);
}

}  // namespace seekline
