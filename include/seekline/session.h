// One timeline of tokens with its cache.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "seekline/model.h"
#include "seekline/reuse.h"

namespace seekline {

class PrefixCache;
class SequenceCache;
class Timeline;

struct SessionOptions {
  ReplayWay way = ReplayWay::kAuto;
  /// Computes every prompt that reused something a second time from nothing and throws Error(kInternal) at
  /// the first bit that differs, naming layer and position. Not with ReplayWay::kBounded.
  bool verify_reuse = false;
  /// Prompts look here for what they begin like, and leave here what they computed; null: the session's own
  /// tokens only.
  std::shared_ptr<PrefixCache> prefixes;
};

/// What a prompt answers is a function of its tokens and the decoder mode (ReplayWay::kBounded excepted): not
/// of what the session did before. Not thread-safe; different sessions of one model may be used from
/// different threads.
class Session {
 public:
  explicit Session(std::shared_ptr<Model> model, const SessionOptions& options = {});
  ~Session();
  Session(Session&&) noexcept;
  Session& operator=(Session&&) = delete;

  std::int64_t length() const;
  std::span<const std::int32_t> tokens() const;

  /// Makes `tokens` the session's tokens and a prompt: what it has in common with them is kept, the rest
  /// computed in chunks of the model's batch_tokens. `progress` (tokens of the prompt that are there) is
  /// called after each chunk; where it returns false the rest is left out and prompt returns false. Throws
  /// Error(kLimit) before anything is computed where the context or the cache limit would be passed,
  /// Error(kUsage) for no tokens or one that is not in the vocabulary, and Error(kBadFile) where the model's
  /// logits are not finite.
  bool prompt(std::span<const std::int32_t> tokens,
              const std::function<bool(std::int64_t)>& progress = nullptr);
  /// prompt() of the session's tokens with `tokens` behind them.
  bool append(std::span<const std::int32_t> tokens,
              const std::function<bool(std::int64_t)>& progress = nullptr);
  /// Goes on with a token that was chosen from logits(). Unlike append this is no new prompt: with
  /// DecoderMode::kCed the decoder part is not rebuilt. Throws as prompt().
  void extend(std::int32_t token);

  /// Keeps the first `tokens` tokens. Logits are gone until the next prompt.
  void truncate(std::int64_t tokens);
  /// A second session that shares the rows so far; copied where one of them writes.
  Session fork() const;

  /// Logits after the last token: [vocab_size]; empty before the first.
  std::span<const float> logits() const { return logits_; }
  /// How the last prompt came into the cache.
  const ReuseReport& reuse() const;

  /// Memory of this session's cache: pages (shared ones too), windows, tails and snapshots of them.
  std::int64_t cache_bytes() const;
  SequenceCache& cache();
  Timeline& timeline() { return *timeline_; }
  const Timeline& timeline() const { return *timeline_; }
  const std::shared_ptr<Model>& model() const { return model_; }

 private:
  Session(std::shared_ptr<Model> model, const SessionOptions& options, std::unique_ptr<Timeline> timeline);
  void check(std::span<const std::int32_t> tokens) const;
  void begin(std::span<const std::int32_t> tokens);
  bool compute(const std::function<bool(std::int64_t)>& progress);

  std::shared_ptr<Model> model_;
  SessionOptions options_;
  std::unique_ptr<Timeline> timeline_;
  std::vector<float> logits_;
};

}  // namespace seekline
