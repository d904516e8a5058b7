#include "cache/page_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/arena.h"
#include "seekline/error.h"

namespace seekline {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr std::int64_t kLargestPiece = 1;  // a page each, so that one past its end is seen
#else
constexpr std::int64_t kLargestPiece = 4 * static_cast<std::int64_t>(kHugePage);
#endif

}  // namespace

Page::~Page() { pool_.recycle(store_, bytes_); }

// A piece is as large as all before it together.
std::uint8_t* PagePool::Memory::take(std::int64_t bytes) {
  if (!free.empty()) {
    std::uint8_t* page = free.back();
    free.pop_back();
    return page;
  }
  if (pieces.empty() || taken + bytes > static_cast<std::int64_t>(pieces.back().bytes())) {
    const std::int64_t piece = std::max(bytes, std::min(held, kLargestPiece));
    pieces.emplace_back(static_cast<std::size_t>(piece));
    held += piece;
    taken = 0;
  }
  taken += bytes;
  return pieces.back().data() + (taken - bytes);
}

PagePool::PagePool(const CachePlan& plan, std::int64_t limit_bytes)
    : plan_(plan), limit_bytes_(limit_bytes), memory_(plan.stores.size()) {
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

std::int64_t PagePool::padded_page_bytes(StoreId store) const { return whole_lines(page_bytes(store)); }

std::int64_t PagePool::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return used_bytes_;
}

PageRef PagePool::allocate(StoreId store) {
  const std::int64_t bytes = padded_page_bytes(store);
  const std::lock_guard lock(mutex_);
  if (limit_bytes_ != 0 && used_bytes_ + bytes > limit_bytes_)
    throw Error(ErrorCode::kLimit,
                fmt::format("the cache is full: {} of {} bytes are in use and {} needs a page of {} more",
                            used_bytes_, limit_bytes_, plan_.stores[index(store)].name, bytes));
  std::uint8_t* memory = memory_[index(store)].take(bytes);
  used_bytes_ += bytes;
  return std::make_shared<Page>(*this, store, memory);
}

void PagePool::recycle(StoreId store, std::uint8_t* bytes) {
  const std::lock_guard lock(mutex_);
  used_bytes_ -= padded_page_bytes(store);
  memory_[index(store)].free.push_back(bytes);
}

}  // namespace seekline
