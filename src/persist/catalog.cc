#include "persist/catalog.h"

#include <cstring>
#include <unordered_set>

namespace seekline {
namespace {

Key key_at(Bytes bytes) {
  Key key;
  std::memcpy(key.bytes.data(), bytes.data(), key.bytes.size());
  return key;
}

std::vector<CatalogEntry> list_of(const Txn& txn, RecordKind kind) {
  std::vector<CatalogEntry> list;
  Cursor cursor(txn, table_of(kind));
  for (bool there = cursor.first(); there; there = cursor.next()) {
    const Bytes place = cursor.key();
    if (place.size() < 16) continue;
    CatalogEntry& entry = list.emplace_back();
    entry.place.assign(place.begin(), place.end());
    entry.key = record_key(kind, place);
    entry.parent = parent_of(place);
    entry.first_piece_bytes = static_cast<std::int64_t>(cursor.value().size());
  }
  return list;
}

}  // namespace

Catalog::Catalog(const Txn& txn)
    : blocks(list_of(txn, RecordKind::kBlock)), snapshots(list_of(txn, RecordKind::kSnapshot)) {
  Cursor model(txn, Table::kModels);
  for (bool there = model.first(); there; there = model.next())
    if (model.key().size() == 16) models[key_at(model.key())] = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) block_of[blocks[i].key] = i;
  for (const CatalogEntry& block : blocks) {
    if (const auto parent = block_of.find(block.parent); parent != block_of.end())
      ++blocks[parent->second].children;
    if (const auto root = models.find(block.parent); root != models.end()) ++root->second;
  }
  for (std::size_t i = 0; i < snapshots.size(); ++i) snapshot_of_[snapshots[i].key] = i;
  find_roots();
  read_used(txn);
  read_pieces(txn);
}

// Up from every block to one whose root is known, then down again.
void Catalog::find_roots() {
  std::vector<bool> known(blocks.size(), false);
  for (std::size_t start = 0; start < blocks.size(); ++start) {
    std::vector<std::size_t> path;
    std::size_t at = start;
    while (!known[at]) {
      known[at] = true;
      path.push_back(at);
      blocks[at].root = blocks[at].parent;
      const auto above = block_of.find(blocks[at].parent);
      if (above == block_of.end()) break;
      at = above->second;
    }
    for (const std::size_t below : path) blocks[below].root = blocks[at].root;
  }
  for (CatalogEntry& snapshot : snapshots) {
    const auto above = block_of.find(snapshot.parent);
    snapshot.root = above == block_of.end() ? snapshot.parent : blocks[above->second].root;
  }
}

void Catalog::read_used(const Txn& txn) {
  Cursor used(txn, Table::kUsed);
  for (bool there = used.first(); there; there = used.next()) {
    if (used.key().size() != 16 || used.value().size() != sizeof(std::uint64_t)) continue;
    const Key key = key_at(used.key());
    std::uint64_t time;
    std::memcpy(&time, used.value().data(), sizeof time);
    const auto block = block_of.find(key);
    const auto snapshot = snapshot_of_.find(key);
    if (block != block_of.end()) blocks[block->second].used = time;
    if (snapshot != snapshot_of_.end()) snapshots[snapshot->second].used = time;
    if (block == block_of.end() && snapshot == snapshot_of_.end()) dangling_used.push_back(key);
  }
}

void Catalog::read_pieces(const Txn& txn) {
  std::unordered_set<Key, KeyHash> seen;
  Cursor piece(txn, Table::kPieces);
  for (bool there = piece.first(); there; there = piece.next()) {
    if (piece.key().size() < 16) continue;
    const Key key = key_at(piece.key());
    if (!block_of.contains(key) && !snapshot_of_.contains(key) && seen.insert(key).second)
      dangling_pieces.push_back(key);
  }
}

}  // namespace seekline
