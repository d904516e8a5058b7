// How much memory this process may count on.
#pragma once

#include <cstdint>

namespace seekline {

/// The machine's memory, or the lowest limit of this process's control groups (v2) where that is lower.
/// Bytes.
std::int64_t memory_bytes();

}  // namespace seekline
