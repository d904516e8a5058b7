#include "engine/prefix_cache.h"

#include <algorithm>

namespace seekline {
namespace {

std::int64_t common_tokens(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::ranges::mismatch(a, b).in1 - a.begin();
}

}  // namespace

PrefixCache::PrefixCache(PagePool& pool, DecoderMode mode, std::unique_ptr<RowSource> store,
                         const PrefixCacheOptions& options)
    : pool_(pool), mode_(mode), store_(std::move(store)), options_(options) {}

// The kept timeline from which the fewest tokens have to be computed; with the longest common prefix among
// equals.
PrefixCache::Choice PrefixCache::choose(std::span<const std::int32_t> tokens, std::int64_t prompt,
                                        ReplayWay way) {
  Choice best{kept_.end(), 0, 0};
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const Timeline& timeline = **it;
    const std::int64_t common = common_tokens(tokens, timeline.cache().tokens());
    if (common == 0) continue;
    std::vector<RingPoint> points = timeline.ring_points();
    std::erase_if(points, [&](const RingPoint& point) { return point.position > common; });
    const PromptWork work =
        plan_prompt(pool_.plan(), {std::ssize(tokens), prompt, common, mode_, way}, points);
    if (best.kept == kept_.end() || work.start > best.start ||
        (work.start == best.start && common > best.common))
      best = {it, common, work.start};
  }
  return best;
}

// A timeline that goes on unchanged is handed over whole; one that goes on differently stays and is forked.
std::unique_ptr<Timeline> PrefixCache::take(const Choice& choice) {
  if (choice.kept == kept_.end()) return std::make_unique<Timeline>(pool_, mode_);
  if (choice.common < (*choice.kept)->rows()) {
    kept_.splice(kept_.begin(), kept_, choice.kept);
    return (*choice.kept)->fork(choice.common);
  }
  std::unique_ptr<Timeline> whole = std::move(*choice.kept);
  kept_.erase(choice.kept);
  return whole;
}

std::unique_ptr<Timeline> PrefixCache::acquire(std::span<const std::int32_t> tokens, std::int64_t prompt,
                                               ReplayWay way) {
  std::unique_ptr<Timeline> timeline;
  std::int64_t in_memory = 0;
  {
    const std::lock_guard lock(mutex_);
    const Choice choice = choose(tokens, prompt, way);
    in_memory = choice.common;
    timeline = take(choice);
  }
  std::string why_not_more;
  const PromptQuestion question{std::ssize(tokens), prompt, std::ssize(tokens), mode_, way};
  if (store_ && in_memory + 1 < std::ssize(tokens)) {
    const RowSource::Found found = store_->find(tokens);
    why_not_more = found.why_not_more;
    if (found.rows > in_memory) {
      const std::string lost = store_->load(tokens, ring_goal(pool_.plan(), question), *timeline);
      if (!lost.empty()) why_not_more = lost;
    }
  }
  timeline->begin(tokens, prompt, way);
  ReuseReport& report = timeline->report();
  if (report.from == "session") report.from = "memory";
  if (report.reused_tokens + 1 < std::ssize(tokens) && !why_not_more.empty())
    report.why_not_more += "; on disk: " + why_not_more;
  return timeline;
}

void PrefixCache::ran(const Timeline& timeline) {
  if (!store_ || timeline.approximate()) return;
  const bool page_done = timeline.rows() % kPageTokens == 0;
  if (timeline.at_resume_point() || page_done) store_->save(timeline, timeline.at_resume_point());
}

void PrefixCache::keep(std::unique_ptr<Timeline> timeline) {
  if (!timeline->done()) timeline->stop();
  timeline->forget_approximate();
  if (timeline->rows() == 0) return;
  if (store_) store_->save(*timeline, timeline->rings_at_end());
  const std::lock_guard lock(mutex_);
  kept_.push_front(std::move(timeline));
  if (kept_.size() > options_.most_timelines) kept_.pop_back();
  limit_snapshots();
}

void PrefixCache::limit_snapshots() {
  std::int64_t bytes = 0;
  for (const auto& timeline : kept_) {
    bytes += timeline->snapshot_bytes();
    if (bytes > options_.snapshot_bytes) timeline->drop_snapshots();
  }
}

void PrefixCache::evict(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::int64_t goal = pool_.used_bytes() - bytes;
  while (!kept_.empty() && pool_.used_bytes() > goal) kept_.pop_back();
  if (store_) store_->hurry();  // what waits to be written keeps its pages
}

PrefixCache::Stats PrefixCache::stats() const {
  const std::lock_guard lock(mutex_);
  Stats stats;
  stats.timelines = std::ssize(kept_);
  for (const auto& timeline : kept_) {
    stats.bytes += timeline->bytes();
    stats.snapshot_bytes += timeline->snapshot_bytes();
  }
  return stats;
}

}  // namespace seekline
