// Cache contents by formula: a long context without computing it, for benches.
#pragma once

#include <cstdint>

#include "cache/sequence_cache.h"
#include "core/thread_pool.h"

namespace seekline {

/// The sequence becomes `tokens` tokens long. Every row of its growing stores and rings is filled with values
/// of ordinary size that differ from row to row, every token id is below `vocab`; all of it depends on
/// positions alone. Throws Error(kLimit) where the cache has no room.
void fill_with_formula(SequenceCache& cache, std::int64_t tokens, std::int64_t vocab, ThreadPool& pool);

/// Token `position` of that sequence.
std::int32_t formula_token(std::int64_t position, std::int64_t vocab);

}  // namespace seekline
