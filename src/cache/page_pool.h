// Pages of cache rows: allocated from a plan, shared between sequences by reference.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "core/buffer.h"
#include "seekline/cache_plan.h"

namespace seekline {

/// Tokens that one page of any growing store covers; a page holds kPageTokens / m rows.
inline constexpr std::int64_t kPageTokens = 256;

class PagePool;

/// Rows of one growing store: one data plane, then one scale plane. Shared pages are read-only.
class Page {
 public:
  Page(PagePool& pool, StoreId store, Buffer<std::uint8_t> memory);
  ~Page();
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  std::uint8_t* bytes() { return memory_.data(); }
  const std::uint8_t* bytes() const { return memory_.data(); }

 private:
  PagePool& pool_;
  StoreId store_;
  Buffer<std::uint8_t> memory_;
};

using PageRef = std::shared_ptr<Page>;

/// Owns the memory of all pages of one model's sequences and keeps freed pages for reuse. Thread-safe. Must
/// outlive its pages.
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
  void recycle(StoreId store, Buffer<std::uint8_t> memory);

  const CachePlan plan_;
  const std::int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::vector<std::vector<Buffer<std::uint8_t>>> free_;
  std::int64_t used_bytes_ = 0;
};

}  // namespace seekline
