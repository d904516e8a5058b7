// Caches of finished requests, kept in memory for the request that continues one.
#pragma once

#include <list>

#include "engine/cache_source.h"

namespace seekline {

/// A kept cache is handed on where all its tokens begin the new request; the least recently used goes first.
class LiveCaches final : public CacheSource {
 public:
  /// `pool` must outlive this object. At most `max_caches` are kept.
  explicit LiveCaches(PagePool& pool, std::size_t max_caches = 32) : pool_(pool), max_caches_(max_caches) {}

  AcquiredCache acquire(std::span<const std::int32_t> tokens, std::int64_t prompt_tokens) override;
  void release(std::unique_ptr<SequenceCache> cache) override;
  void evict(std::int64_t bytes) override;
  std::int64_t kept_bytes() const override;
  std::int64_t kept_caches() const override { return static_cast<std::int64_t>(kept_.size()); }

 private:
  PagePool& pool_;
  const std::size_t max_caches_;
  std::list<std::unique_ptr<SequenceCache>> kept_;  // most recently used first
};

}  // namespace seekline
