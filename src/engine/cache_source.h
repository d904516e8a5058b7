// Where the scheduler's caches come from and go to: the place where prefix reuse plugs in.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cache/sequence_cache.h"

namespace seekline {

/// What a request found of its tokens, and why not more.
struct PrefixReport {
  std::int64_t reused_tokens = 0;    ///< tokens whose rows were there
  std::int64_t replayed_tokens = 0;  ///< of those: computed again to rebuild windows and tails
  std::string from = "nothing";      ///< "nothing", "memory", ...
  std::string why_not_more;          ///< empty where everything before the last token was reused
};

struct AcquiredCache {
  std::unique_ptr<SequenceCache> cache;
  PrefixReport report;
};

/// Used by the scheduler's thread alone. What it hands out is a function of tokens only: a continued cache
/// gives the bits of a cold one.
class CacheSource {
 public:
  virtual ~CacheSource() = default;

  /// A cache whose tokens are a proper prefix of `tokens` (the longest at hand; may be empty). The first
  /// `prompt_tokens` of them are the request's prompt, the others an answer that was interrupted.
  virtual AcquiredCache acquire(std::span<const std::int32_t> tokens, std::int64_t prompt_tokens) = 0;

  /// Takes a cache back, with whatever tokens it holds by now, for requests that continue them.
  virtual void release(std::unique_ptr<SequenceCache> cache) = 0;

  /// Gives up kept caches until at least `bytes` of pages are free again or nothing is left.
  virtual void evict(std::int64_t bytes) = 0;

  /// Memory of the caches that are kept, rings included.
  virtual std::int64_t kept_bytes() const = 0;
  virtual std::int64_t kept_caches() const = 0;
};

}  // namespace seekline
