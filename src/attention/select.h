// Deterministic selection of the best k of many scores, without a sort.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/thread_pool.h"

namespace seekline {

/// Writes the indices of the k largest scores in ascending order of index; equal scores (-0 equals +0): the
/// lower index wins. Fewer than k scores: all of them. Returns how many. O(n): radix passes over the float's
/// bits.
std::int64_t select_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out);

/// The same for lists of which k are few, in two passes; `scratch` has room for n indices.
std::int64_t select_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out,
                          std::int32_t* scratch);

/// The same for one list by all threads of the pool.
std::int64_t select_top_k(ThreadPool& pool, Arena& arena, const float* scores, std::int64_t n, std::int64_t k,
                          std::int32_t* out, std::int32_t* scratch);

}  // namespace seekline
