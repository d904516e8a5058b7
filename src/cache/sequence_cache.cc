#include "cache/sequence_cache.h"

#include <algorithm>
#include <cstring>

#include "core/check.h"

namespace seekline {

SequenceCache::SequenceCache(PagePool& pool) : pool_(&pool), ledger_(pool.plan()) {
  slots_.resize(plan().stores.size());
  for (const Store& store : plan().stores) {
    Slot& slot = slots_[static_cast<std::size_t>(store.id)];
    slot.data_bytes = store.row.data_bytes();
    slot.scale_bytes = store.row.scale_bytes();
    slot.ring_rows = store.ring_rows;
    if (store.growing()) {
      slot.rows_per_page = pool.rows_per_page(store.id);
    } else {
      slot.ring = Buffer<std::uint8_t>(static_cast<std::size_t>(store.ring_rows * store.row.bytes()));
    }
  }
}

void SequenceCache::reserve(std::int64_t tokens) {
  const std::size_t pages = static_cast<std::size_t>((tokens + kPageTokens - 1) / kPageTokens);
  const std::size_t first_written = static_cast<std::size_t>(length() / kPageTokens);
  std::vector<std::pair<StoreId, PageRef>> copies;  // collected first: a refused page must leave no trace
  std::vector<std::pair<StoreId, PageRef>> fresh;
  for (const Store& store : plan().stores) {
    if (!store.growing()) continue;
    const auto& held = slot(store.id).pages;
    if (first_written < held.size() && held[first_written].use_count() > 1) {
      PageRef copy = pool_->allocate(store.id);
      std::memcpy(copy->bytes(), held[first_written]->bytes(),
                  static_cast<std::size_t>(pool_->page_bytes(store.id)));
      copies.emplace_back(store.id, std::move(copy));
    }
    for (std::size_t page = held.size(); page < pages; ++page)
      fresh.emplace_back(store.id, pool_->allocate(store.id));
  }
  for (auto& [store, page] : copies)
    slots_[static_cast<std::size_t>(store)].pages[first_written] = std::move(page);
  for (auto& [store, page] : fresh) slots_[static_cast<std::size_t>(store)].pages.push_back(std::move(page));
  tokens_.reserve(static_cast<std::size_t>(std::max<std::int64_t>(tokens, 0)));
}

void SequenceCache::advance(std::int64_t first, std::span<const std::int32_t> ids) {
  SEEKLINE_CHECK(first <= length(), "a run starts beyond the end of its sequence");
  const auto known = static_cast<std::size_t>(std::min<std::int64_t>(length() - first, std::ssize(ids)));
  SEEKLINE_CHECK(
      std::equal(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(known), tokens_.begin() + first),
      "a replay computes the tokens that are there");
  tokens_.insert(tokens_.end(), ids.begin() + static_cast<std::ptrdiff_t>(known), ids.end());
}

void SequenceCache::truncate(std::int64_t tokens) {
  SEEKLINE_CHECK(tokens >= 0 && tokens <= length(), "a sequence is cut inside its tokens");
  tokens_.resize(static_cast<std::size_t>(tokens));
  const auto pages = static_cast<std::size_t>((tokens + kPageTokens - 1) / kPageTokens);
  for (Slot& slot : slots_)
    if (slot.pages.size() > pages) slot.pages.resize(pages);
}

SequenceCache SequenceCache::fork(std::int64_t tokens) const {
  SEEKLINE_CHECK(tokens >= 0 && tokens <= length(), "a sequence is forked inside its tokens");
  SequenceCache copy(*pool_);
  copy.tokens_.assign(tokens_.begin(), tokens_.begin() + tokens);
  const auto pages = (tokens + kPageTokens - 1) / kPageTokens;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].ring_rows == 0) {
      copy.slots_[i].pages.assign(slots_[i].pages.begin(), slots_[i].pages.begin() + pages);
    } else {
      std::memcpy(copy.slots_[i].ring.data(), slots_[i].ring.data(), slots_[i].ring.bytes());
    }
  }
  return copy;
}

RowRef SequenceCache::row(StoreId store, std::int64_t index) const {
  const Slot& s = slot(store);
  const std::int64_t at = index % s.rows_per_page;
  const std::uint8_t* page = s.pages[static_cast<std::size_t>(index / s.rows_per_page)]->bytes();
  return {page + at * s.data_bytes, page + s.rows_per_page * s.data_bytes + at * s.scale_bytes};
}

MutableRow SequenceCache::mutable_row(StoreId store, std::int64_t index) {
  const Slot& s = slot(store);
  const std::int64_t at = index % s.rows_per_page;
  std::uint8_t* page = s.pages[static_cast<std::size_t>(index / s.rows_per_page)]->bytes();
  return {page + at * s.data_bytes, page + s.rows_per_page * s.data_bytes + at * s.scale_bytes};
}

PageRows SequenceCache::page_rows(StoreId store, std::int64_t first, std::int64_t limit) const {
  const RowRef at = row(store, first);
  const std::int64_t per_page = slot(store).rows_per_page;
  return {at.data, at.scale, std::min(limit, per_page - first % per_page)};
}

RowRef SequenceCache::ring_row(StoreId store, std::int64_t position) const {
  const Slot& s = slot(store);
  const std::int64_t at = position % s.ring_rows;
  const std::uint8_t* ring = s.ring.data();
  return {ring + at * s.data_bytes, ring + s.ring_rows * s.data_bytes + at * s.scale_bytes};
}

MutableRow SequenceCache::mutable_ring_row(StoreId store, std::int64_t position) {
  Slot& s = slots_[static_cast<std::size_t>(store)];
  const std::int64_t at = position % s.ring_rows;
  std::uint8_t* ring = s.ring.data();
  return {ring + at * s.data_bytes, ring + s.ring_rows * s.data_bytes + at * s.scale_bytes};
}

std::int64_t SequenceCache::allocated_bytes(StoreId store) const {
  const Slot& s = slot(store);
  if (s.ring_rows != 0) return static_cast<std::int64_t>(s.ring.size());
  return static_cast<std::int64_t>(s.pages.size()) * pool_->padded_page_bytes(store);
}

std::int64_t SequenceCache::allocated_bytes() const {
  std::int64_t sum = 0;
  for (const Store& store : plan().stores) sum += allocated_bytes(store.id);
  return sum;
}

}  // namespace seekline
