// Timelines of finished prompts and answers, kept in memory for the prompts that begin like them.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>

#include "engine/row_source.h"
#include "engine/timeline.h"

namespace seekline {

struct PrefixCacheOptions {
  std::size_t most_timelines = 32;
  std::int64_t snapshot_bytes = std::int64_t{256}
                                << 20;  ///< of all kept timelines; the oldest lose theirs first
};

/// A prompt takes the rows of the kept timeline, or of the store behind it, that saves it most work;
/// timelines with a common prefix share its pages. Least recently used ones go first, their snapshots before
/// their rows. Thread-safe.
class PrefixCache {
 public:
  /// `pool` must outlive this object and its timelines. `store` may be null.
  PrefixCache(PagePool& pool, DecoderMode mode, std::unique_ptr<RowSource> store = nullptr,
              const PrefixCacheOptions& options = {});

  /// A timeline that has begun `tokens` (Timeline::begin). The report says what was reused and why not more.
  std::unique_ptr<Timeline> acquire(std::span<const std::int32_t> tokens, std::int64_t prompt, ReplayWay way);
  /// To be called after runs: hands finished pages and resume points to the store.
  void ran(const Timeline& timeline);
  /// Takes a timeline back, done or stopped.
  void keep(std::unique_ptr<Timeline> timeline);

  /// Gives up kept timelines until `bytes` more of the pool's pages are free, or nothing is kept.
  void evict(std::int64_t bytes);

  struct Stats {
    std::int64_t timelines = 0, bytes = 0, snapshot_bytes = 0;
  };
  Stats stats() const;

 private:
  struct Choice {
    std::list<std::unique_ptr<Timeline>>::iterator kept;
    std::int64_t common = 0, start = 0;
  };
  Choice choose(std::span<const std::int32_t> tokens, std::int64_t prompt, ReplayWay way);
  std::unique_ptr<Timeline> take(const Choice& choice);
  void limit_snapshots();

  PagePool& pool_;
  const DecoderMode mode_;
  const std::unique_ptr<RowSource> store_;
  const PrefixCacheOptions options_;
  mutable std::mutex mutex_;
  std::list<std::unique_ptr<Timeline>> kept_;  // most recently used first
};

}  // namespace seekline
