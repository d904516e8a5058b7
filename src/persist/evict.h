// Makes a store smaller: the least recently used goes first, and nothing that something else continues.
#pragma once

#include <cstdint>

#include "persist/environment.h"

namespace seekline {

struct Evicted {
  std::int64_t blocks = 0, snapshots = 0;
};

/// Erases until the store's pages in use are at most `target_bytes`: first snapshots, the least recently used
/// first, down to a fifth of the target; then blocks that no block continues, likewise, each with the
/// snapshots that need it. Using a block uses all blocks before it.
Evicted evict(WriteTxn& txn, std::int64_t target_bytes);

}  // namespace seekline
