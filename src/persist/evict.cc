#include "persist/evict.h"

#include <algorithm>
#include <map>
#include <queue>

#include "persist/catalog.h"
#include "persist/job_writer.h"

namespace seekline {
namespace {

constexpr std::int64_t kSnapshotShare = 5;

class Eviction {
 public:
  Eviction(WriteTxn& txn, std::int64_t target) : txn_(txn), target_(target), catalog_(txn) {
    for (std::size_t i = 0; i < catalog_.snapshots.size(); ++i)
      of_parent_.emplace(catalog_.snapshots[i].parent, i);
    gone_.resize(catalog_.snapshots.size(), false);
  }

  Evicted run() {
    const std::vector<std::size_t> oldest = snapshots_by_use();
    std::int64_t bytes = 0;
    for (const std::size_t i : oldest) bytes += snapshot_bytes(i);
    for (const std::size_t i : oldest) {
      if (done() || bytes <= target_ / kSnapshotShare) break;
      bytes -= snapshot_bytes(i);
      erase_snapshot(i);
    }
    erase_blocks();
    for (const std::size_t i : oldest)
      if (!done()) erase_snapshot(i);
    return evicted_;
  }

 private:
  bool done() const { return txn_.live_bytes() <= target_; }

  std::vector<std::size_t> snapshots_by_use() const {
    std::vector<std::size_t> order(catalog_.snapshots.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return catalog_.snapshots[a].used < catalog_.snapshots[b].used;
    });
    return order;
  }

  std::int64_t snapshot_bytes(std::size_t i) const {
    std::string problem;
    const auto record = StoredRecord::find(txn_, RecordKind::kSnapshot, catalog_.snapshots[i].place, problem);
    return record && problem.empty() ? record->stored_bytes() : catalog_.snapshots[i].first_piece_bytes;
  }

  void erase_snapshot(std::size_t i) {
    if (gone_[i]) return;
    gone_[i] = true;
    if (erase_record(txn_, RecordKind::kSnapshot, catalog_.snapshots[i].place)) ++evicted_.snapshots;
  }

  // Snapshots among the tokens of this block.
  void erase_snapshots_of(const CatalogEntry& block) {
    const auto [begin, end] = of_parent_.equal_range(block.parent);
    if (begin == end) return;
    std::string problem;
    const auto record = StoredRecord::find(txn_, RecordKind::kBlock, block.place, problem);
    const std::vector<std::int32_t> tokens =
        record && problem.empty() ? record->header().tokens() : std::vector<std::int32_t>{};
    for (auto it = begin; it != end; ++it) {
      const auto snapshot =
          StoredRecord::find(txn_, RecordKind::kSnapshot, catalog_.snapshots[it->second].place, problem);
      const bool inside = snapshot && (!problem.empty() || snapshot->header().common_tokens(tokens) ==
                                                               snapshot->header().token_count());
      if (inside) erase_snapshot(it->second);
    }
  }

  void erase_blocks() {
    struct Leaf {
      std::uint64_t used;
      std::size_t index;
      bool operator<(const Leaf& other) const { return used > other.used; }  // the oldest on top
    };
    std::priority_queue<Leaf> leaves;
    auto& blocks = catalog_.blocks;
    for (std::size_t i = 0; i < blocks.size(); ++i)
      if (blocks[i].children == 0) leaves.push({blocks[i].used, i});
    while (!done() && !leaves.empty()) {
      const Leaf leaf = leaves.top();
      leaves.pop();
      erase_snapshots_of(blocks[leaf.index]);
      if (erase_record(txn_, RecordKind::kBlock, blocks[leaf.index].place)) ++evicted_.blocks;
      const auto above = catalog_.block_of.find(blocks[leaf.index].parent);
      if (above == catalog_.block_of.end()) continue;
      CatalogEntry& parent = blocks[above->second];
      if (leaf.used > parent.used) {
        parent.used = leaf.used;
        mark_used(txn_, parent.key, leaf.used);
      }
      if (--parent.children == 0) leaves.push({parent.used, above->second});
    }
  }

  WriteTxn& txn_;
  const std::int64_t target_;
  Catalog catalog_;
  std::multimap<Key, std::size_t> of_parent_;
  std::vector<bool> gone_;
  Evicted evicted_;
};

}  // namespace

Evicted evict(WriteTxn& txn, std::int64_t target_bytes) {
  if (txn.live_bytes() <= target_bytes) return {};
  return Eviction(txn, target_bytes).run();
}

}  // namespace seekline
