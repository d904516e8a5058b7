#include "cache/snapshot.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace seekline {
namespace {

// The rows of one ring at `length`, and where they lie in a snapshot.
struct RingRows {
  std::int64_t first, count, data_bytes, scale_bytes;

  RingRows(const Store& store, std::int64_t length)
      : first(length - store.rows_at(length)),
        count(store.rows_at(length)),
        data_bytes(store.row.data_bytes()),
        scale_bytes(store.row.scale_bytes()) {}

  std::int64_t bytes() const { return count * (data_bytes + scale_bytes); }
  std::int64_t data_at(std::int64_t row) const { return row * data_bytes; }
  std::int64_t scale_at(std::int64_t row) const { return count * data_bytes + row * scale_bytes; }
};

const Store& store_of(const CachePlan& plan, StoreId id) { return plan.stores[static_cast<std::size_t>(id)]; }

}  // namespace

std::vector<StoreId> snapshot_stores(const CachePlan& plan, SnapshotPart part) {
  std::vector<StoreId> ids;
  for (const Store& store : plan.stores) {
    if (store.growing()) continue;
    const bool decoder_window =
        store.kind == StoreKind::kWindow && store.owner_layer >= plan.first_decoder_layer();
    if (part == SnapshotPart::kAll || !decoder_window) ids.push_back(store.id);
  }
  return ids;
}

std::int64_t snapshot_bytes(const CachePlan& plan, SnapshotPart part, std::int64_t length) {
  std::int64_t sum = 0;
  for (const StoreId id : snapshot_stores(plan, part)) sum += RingRows(store_of(plan, id), length).bytes();
  return sum;
}

Snapshot take_snapshot(const SequenceCache& cache, SnapshotPart part) {
  return take_snapshot(cache, part, cache.length());
}

Snapshot take_snapshot(const SequenceCache& cache, SnapshotPart part, std::int64_t position) {
  Snapshot snapshot{part, position, {}};
  snapshot.bytes.resize(static_cast<std::size_t>(snapshot_bytes(cache.plan(), part, position)));
  std::uint8_t* out = snapshot.bytes.data();
  for (const StoreId id : snapshot_stores(cache.plan(), part)) {
    const RingRows rows(store_of(cache.plan(), id), position);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const RowRef from = cache.ring_row(id, rows.first + i);
      std::memcpy(out + rows.data_at(i), from.data, static_cast<std::size_t>(rows.data_bytes));
      std::memcpy(out + rows.scale_at(i), from.scale, static_cast<std::size_t>(rows.scale_bytes));
    }
    out += rows.bytes();
  }
  return snapshot;
}

void put_snapshot(SequenceCache& cache, SnapshotPart part, std::int64_t length,
                  std::span<const std::uint8_t> bytes) {
  SEEKLINE_CHECK(static_cast<std::int64_t>(bytes.size()) == snapshot_bytes(cache.plan(), part, length),
                 "a snapshot is as long as its plan and length say");
  const std::uint8_t* in = bytes.data();
  for (const StoreId id : snapshot_stores(cache.plan(), part)) {
    const RingRows rows(store_of(cache.plan(), id), length);
    for (std::int64_t i = 0; i < rows.count; ++i) {
      const MutableRow to = cache.mutable_ring_row(id, rows.first + i);
      std::memcpy(to.data, in + rows.data_at(i), static_cast<std::size_t>(rows.data_bytes));
      std::memcpy(to.scale, in + rows.scale_at(i), static_cast<std::size_t>(rows.scale_bytes));
    }
    in += rows.bytes();
  }
}

void put_snapshot(SequenceCache& cache, const Snapshot& snapshot) {
  put_snapshot(cache, snapshot.part, snapshot.length, snapshot.bytes);
}

}  // namespace seekline
