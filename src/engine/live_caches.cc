#include "engine/live_caches.h"

#include <algorithm>

#include <fmt/format.h>

namespace seekline {
namespace {

std::size_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

}  // namespace

AcquiredCache LiveCaches::acquire(std::span<const std::int32_t> tokens, std::int64_t) {
  auto best = kept_.end();
  std::size_t longest_common = 0;
  for (auto it = kept_.begin(); it != kept_.end(); ++it) {
    const std::span<const std::int32_t> held = (*it)->tokens();
    const std::size_t common = common_prefix(held, tokens);
    longest_common = std::max(longest_common, common);
    if (common < held.size() || held.size() >= tokens.size()) continue;
    if (best == kept_.end() || held.size() > (*best)->tokens().size()) best = it;
  }
  AcquiredCache out;
  if (best == kept_.end()) {
    out.cache = std::make_unique<SequenceCache>(pool_);
  } else {
    out.cache = std::move(*best);
    kept_.erase(best);
    out.report.from = "memory";
    out.report.reused_tokens = out.cache->length();
  }
  const auto reused = static_cast<std::size_t>(out.report.reused_tokens);
  if (longest_common > reused) {
    out.report.why_not_more =
        fmt::format("{} tokens are shared with a kept cache, which goes on differently", longest_common);
  } else if (reused + 1 < tokens.size()) {
    out.report.why_not_more = "no kept cache holds more of these tokens";
  }
  return out;
}

void LiveCaches::release(std::unique_ptr<SequenceCache> cache) {
  if (cache->length() == 0) return;
  kept_.push_front(std::move(cache));
  if (kept_.size() > max_caches_) kept_.pop_back();
}

void LiveCaches::evict(std::int64_t bytes) {
  const std::int64_t goal = pool_.used_bytes() - bytes;
  while (!kept_.empty() && pool_.used_bytes() > goal) kept_.pop_back();
}

std::int64_t LiveCaches::kept_bytes() const {
  std::int64_t sum = 0;
  for (const auto& cache : kept_) sum += cache->allocated_bytes();
  return sum;
}

}  // namespace seekline
