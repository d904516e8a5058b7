#include "cache/page_pool.h"

#include <fmt/format.h>

#include "seekline/error.h"

namespace seekline {

Page::Page(PagePool& pool, StoreId store, Buffer<std::uint8_t> memory)
    : pool_(pool), store_(store), memory_(std::move(memory)) {}

Page::~Page() { pool_.recycle(store_, std::move(memory_)); }

PagePool::PagePool(const CachePlan& plan, std::int64_t limit_bytes)
    : plan_(plan), limit_bytes_(limit_bytes), free_(plan.stores.size()) {
  for (const Store& store : plan_.stores)
    if (store.growing() && kPageTokens % store.tokens_per_row != 0)
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("{}: {} compresses {} tokens into a row, and this engine's pages of {} tokens "
                              "need a divisor of that",
                              plan_.model, store.name, store.tokens_per_row, kPageTokens));
}

std::int64_t PagePool::page_bytes(StoreId store) const {
  return rows_per_page(store) * plan_.stores[index(store)].row.bytes();
}

std::int64_t PagePool::padded_page_bytes(StoreId store) const { return (page_bytes(store) + 63) / 64 * 64; }

std::int64_t PagePool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

PageRef PagePool::allocate(StoreId store) {
  const std::int64_t bytes = padded_page_bytes(store);
  Buffer<std::uint8_t> memory;
  {
    const std::lock_guard lock(mutex_);
    if (limit_bytes_ != 0 && used_bytes_ + bytes > limit_bytes_)
      throw Error(ErrorCode::kLimit,
                  fmt::format("the cache is full: {} of {} bytes are in use and {} needs a page of {} more",
                              used_bytes_, limit_bytes_, plan_.stores[index(store)].name, bytes));
    used_bytes_ += bytes;
    auto& free_pages = free_[index(store)];
    if (!free_pages.empty()) {
      memory = std::move(free_pages.back());
      free_pages.pop_back();
    }
  }
  if (memory.empty()) memory = Buffer<std::uint8_t>(static_cast<std::size_t>(bytes));
  return std::make_shared<Page>(*this, store, std::move(memory));
}

void PagePool::recycle(StoreId store, Buffer<std::uint8_t> memory) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= padded_page_bytes(store);
  free_[index(store)].push_back(std::move(memory));
}

}  // namespace seekline
