// The rings of a sequence as plain bytes: what a resumable point needs beside the rows of the growing stores.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/sequence_cache.h"

namespace seekline {

/// Which windows are in a snapshot. Tails always are: the compressors run on every token in either decoder
/// mode.
enum class SnapshotPart : std::uint8_t {
  kEncoder = 0,  ///< windows of the encoder layers: true in both decoder modes
  kAll = 1,  ///< windows of all layers: of a sequence whose decoder layers ran on every token of the windows
};

/// The rings that a snapshot of `part` holds, in order of id. Models without a decoder part have the same for
/// both.
std::vector<StoreId> snapshot_stores(const CachePlan& plan, SnapshotPart part);

/// Bytes of a snapshot at `length`: for every ring the rows of positions [length - min(length, ring_rows),
/// length).
std::int64_t snapshot_bytes(const CachePlan& plan, SnapshotPart part, std::int64_t length);

/// A snapshot in memory. The bytes are a function of the sequence's tokens: for every ring of
/// snapshot_stores() the data parts of its rows in order of position, then their scale parts.
struct Snapshot {
  SnapshotPart part = SnapshotPart::kAll;
  std::int64_t length = 0;
  std::vector<std::uint8_t> bytes;
};

/// The rings of `cache` at its length, or at `position`: where the forward ended that wrote them last (a
/// replay may end before the cache's length). Rings hold the newest positions only, so there is no snapshot
/// of an earlier one.
Snapshot take_snapshot(const SequenceCache& cache, SnapshotPart part);
Snapshot take_snapshot(const SequenceCache& cache, SnapshotPart part, std::int64_t position);

/// Puts the rows back at their positions; rings that the snapshot does not hold stay as they are. The growing
/// stores and the tokens of `cache` are not touched: the caller has them, or restores them beside it. `bytes`
/// must be snapshot_bytes(plan, part, length) long.
void put_snapshot(SequenceCache& cache, SnapshotPart part, std::int64_t length,
                  std::span<const std::uint8_t> bytes);
void put_snapshot(SequenceCache& cache, const Snapshot& snapshot);

}  // namespace seekline
