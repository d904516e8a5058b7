// A list of everything in a store, read from its keys alone: for eviction and for people.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "persist/stored_record.h"

namespace seekline {

struct CatalogEntry {
  std::vector<std::uint8_t> place;
  Key key, parent;
  Key root;  ///< the first block's parent: a fingerprint, or a key that nobody has
  std::uint64_t used = 0;
  std::int64_t children = 0;  ///< of blocks: blocks that continue them
  std::int64_t first_piece_bytes = 0;
};

/// About 200 bytes of memory a record; reads no page of a payload.
class Catalog {
 public:
  explicit Catalog(const Txn& txn);

  std::vector<CatalogEntry> blocks, snapshots;
  std::unordered_map<Key, std::size_t, KeyHash> block_of;  ///< key -> index into blocks
  std::unordered_map<Key, std::int64_t, KeyHash> models;   ///< fingerprint -> blocks that begin there
  std::vector<Key> dangling_used, dangling_pieces;         ///< of records that are not there

 private:
  void find_roots();
  void read_used(const Txn& txn);
  void read_pieces(const Txn& txn);

  std::unordered_map<Key, std::size_t, KeyHash> snapshot_of_;
};

}  // namespace seekline
