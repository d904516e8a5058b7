// Pages of cache rows: allocated from a plan, shared between sequences by reference.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/system_memory.h"
#include "seekline/cache_plan.h"

namespace seekline {

/// Tokens that one page of any growing store covers; a page holds kPageTokens / m rows.
inline constexpr std::int64_t kPageTokens = 256;

class PagePool;

/// Rows of one growing store: one data plane, then one scale plane. Shared pages are read-only.
class Page {
 public:
  Page(PagePool& pool, StoreId store, std::uint8_t* bytes) : pool_(pool), store_(store), bytes_(bytes) {}
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  std::uint8_t* bytes() { return bytes_; }
  const std::uint8_t* bytes() const { return bytes_; }

 private:
  PagePool& pool_;
  StoreId store_;
  std::uint8_t* bytes_;
};

using PageRef = std::shared_ptr<Page>;

/// Owns the memory of all pages of one model's sequences and keeps freed pages for reuse. Pages of a store
/// lie in pieces of memory that grow with the store, up to some huge pages each. Thread-safe. Must outlive
/// its pages.
class PagePool {
 public:
  /// `limit_bytes` 0: no limit. Throws Error(kUnsupported) where a store's m does not divide kPageTokens.
  explicit PagePool(const CachePlan& plan, std::int64_t limit_bytes = 0);

  /// Throws Error(kLimit) where the limit would be passed.
  PageRef allocate(StoreId store);

  std::int64_t rows_per_page(StoreId store) const {
    return kPageTokens / plan_.stores[index(store)].tokens_per_row;
  }
  /// Page memory without and with the padding that aligns pages.
  std::int64_t page_bytes(StoreId store) const;
  std::int64_t padded_page_bytes(StoreId store) const;
  /// Bytes of pages in use, padding included.
  std::int64_t used_bytes() const;
  std::int64_t limit_bytes() const { return limit_bytes_; }
  const CachePlan& plan() const { return plan_; }

 private:
  friend class Page;
  static std::size_t index(StoreId store) { return static_cast<std::size_t>(store); }
  void recycle(StoreId store, std::uint8_t* bytes);

  // The memory of one store's pages.
  struct Memory {
    std::vector<SystemMemory> pieces;
    std::int64_t held = 0, taken = 0;  // bytes of all pieces; of the last one that are pages
    std::vector<std::uint8_t*> free;

    std::uint8_t* take(std::int64_t bytes);
  };

  const CachePlan plan_;
  const std::int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::vector<Memory> memory_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace seekline
