// Where the time of a step goes: exclusive seconds, bytes and operations by part of the model.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace seekline {

/// Parts of a step. Those that read weights bear the names of model/network.h's WeightPart.
enum class StepPart : std::uint8_t {
  kEmbedding,
  kAttention,   ///< products with attention's own weights
  kCacheReads,  ///< attention over cache rows
  kIndexer,     ///< products with indexer and compressor weights
  kIndexScan,   ///< scores of index keys and the selection
  kRouter,
  kRoutedExperts,
  kSharedExperts,
  kFeedForward,
  kEngram,
  kStreams,      ///< mHC: gates, Sinkhorn, mixing
  kElementwise,  ///< norms, RoPE, input quantizers, writing of cache rows
  kHead,
  kOther,
  kCount,
};

std::string_view step_part_name(StepPart part);

/// Filled by the thread that drives the steps, never by workers. One profile may sum over many steps.
class StepProfile {
 public:
  struct Sum {
    double seconds = 0;
    double weight_bytes = 0;  ///< of weights, read once a product
    double operations = 0;    ///< products and sums, two for each weight and token
  };

  void start() { last_ = Clock::now(), current_ = StepPart::kOther; }
  void stop() { charge(); }
  /// Time from now on belongs to `part`. Returns whose it was.
  StepPart enter(StepPart part) {
    charge();
    const StepPart before = current_;
    current_ = part;
    return before;
  }
  void count(std::int64_t weight_bytes, double operations) {
    Sum& sum = sums_[static_cast<std::size_t>(current_)];
    sum.weight_bytes += static_cast<double>(weight_bytes);
    sum.operations += operations;
  }
  const Sum& sum(StepPart part) const { return sums_[static_cast<std::size_t>(part)]; }

 private:
  using Clock = std::chrono::steady_clock;

  void charge() {
    const Clock::time_point now = Clock::now();
    sums_[static_cast<std::size_t>(current_)].seconds += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

  std::array<Sum, static_cast<std::size_t>(StepPart::kCount)> sums_{};
  Clock::time_point last_{};
  StepPart current_ = StepPart::kOther;
};

/// Charges its lifetime to a part; a part within a part counts for itself alone. Costs a comparison where
/// there is no profile.
class PartScope {
 public:
  PartScope(StepProfile* profile, StepPart part) : profile_(profile) {
    if (profile_) before_ = profile_->enter(part);
  }
  ~PartScope() {
    if (profile_) profile_->enter(before_);
  }
  PartScope(const PartScope&) = delete;
  PartScope& operator=(const PartScope&) = delete;

 private:
  StepProfile* const profile_;
  StepPart before_ = StepPart::kOther;
};

}  // namespace seekline
