// The cache of one sequence: growing stores in pages, rings, the tokens themselves.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/ledger.h"
#include "cache/page_pool.h"
#include "core/buffer.h"
#include "kernels/table.h"

namespace seekline {

/// Where a row is written.
struct MutableRow {
  std::uint8_t* data = nullptr;
  std::uint8_t* scale = nullptr;
};

/// Consecutive rows of one page.
struct PageRows {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scale = nullptr;
  std::int64_t rows = 0;
};

/// One mutable timeline. Growing stores hold the rows of finished groups of the first length() tokens; rings
/// hold the newest positions of their store, position p in slot p mod ring_rows. Not thread-safe; rows may be
/// read and distinct rows written from many threads within a step.
class SequenceCache {
 public:
  explicit SequenceCache(PagePool& pool);

  const CachePlan& plan() const { return pool_->plan(); }
  std::int64_t length() const { return static_cast<std::int64_t>(tokens_.size()); }
  std::span<const std::int32_t> tokens() const { return tokens_; }
  Ledger& ledger() { return ledger_; }
  const Ledger& ledger() const { return ledger_; }

  /// Makes room for the rows of `tokens` tokens and takes private copies of shared pages that rows from token
  /// length() on would touch. Throws Error(kLimit) and leaves the cache as it was.
  void reserve(std::int64_t tokens);
  /// A forward over tokens [first, first + ids.size()) is done. Those that are new join the history; those
  /// that were there (a replay) must be the same.
  void advance(std::int64_t first, std::span<const std::int32_t> ids);
  /// Forgets the tokens from `tokens` on, with their pages. Rings keep what they hold.
  void truncate(std::int64_t tokens);
  /// A second timeline that shares the rows of the first `tokens` tokens and has a copy of the rings. Shared
  /// pages are copied by whoever writes to them first.
  SequenceCache fork(std::int64_t tokens) const;

  // Growing stores.
  RowRef row(StoreId store, std::int64_t index) const;
  MutableRow mutable_row(StoreId store, std::int64_t index);
  /// Rows [first, ...) up to the end of their page, at most `limit`.
  PageRows page_rows(StoreId store, std::int64_t first, std::int64_t limit) const;
  /// The page that holds the rows of tokens [index, index + 1) * kPageTokens. Whoever keeps it makes it
  /// shared: the sequence then writes to a copy.
  const PageRef& page(StoreId store, std::int64_t index) const {
    return slot(store).pages[static_cast<std::size_t>(index)];
  }

  // Rings.
  RowRef ring_row(StoreId store, std::int64_t position) const;
  MutableRow mutable_ring_row(StoreId store, std::int64_t position);

  /// Memory held for a store: pages or ring, page padding included.
  std::int64_t allocated_bytes(StoreId store) const;
  std::int64_t allocated_bytes() const;

 private:
  struct Slot {
    std::vector<PageRef> pages;  // growing
    Buffer<std::uint8_t> ring;   // ring: data plane, then scale plane
    std::int64_t data_bytes = 0, scale_bytes = 0, rows_per_page = 0, ring_rows = 0;
  };
  const Slot& slot(StoreId store) const { return slots_[static_cast<std::size_t>(store)]; }

  PagePool* pool_;
  std::vector<Slot> slots_;
  std::vector<std::int32_t> tokens_;
  Ledger ledger_;
};

}  // namespace seekline
