// One timeline of tokens with its cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "seekline/model.h"

namespace seekline {

class SequenceCache;

/// Not thread-safe; different sessions of one model may be used from different threads.
class Session {
 public:
  explicit Session(std::shared_ptr<Model> model);
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) noexcept;

  std::int64_t length() const;
  std::span<const std::int32_t> tokens() const;

  /// Computes `tokens` after what is there, in chunks of the model's batch_tokens. `progress` (tokens done so far)
  /// is called after each chunk; where it returns false the rest is left out and append returns false.
  /// Throws Error(kLimit) before anything is computed where the context or the cache limit would be passed, and
  /// Error(kBadFile) where the model's logits are not finite.
  bool append(std::span<const std::int32_t> tokens, const std::function<bool(std::int64_t)>& progress = nullptr);

  /// Logits after the last token: [vocab_size]; empty before the first.
  std::span<const float> logits() const { return logits_; }

  /// Memory of this session's cache.
  std::int64_t cache_bytes() const;
  SequenceCache& cache() { return *cache_; }
  const std::shared_ptr<Model>& model() const { return model_; }

 private:
  std::shared_ptr<Model> model_;
  std::unique_ptr<SequenceCache> cache_;
  std::vector<float> logits_;
};

}  // namespace seekline
