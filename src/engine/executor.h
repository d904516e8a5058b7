// Runs forwards of one network, one at a time.
#pragma once

#include <cstdint>
#include <mutex>
#include <span>

#include "attention/batch.h"
#include "kernels/compute.h"
#include "model/network.h"

namespace seekline {

/// Owns the threads and the scratch memory. Thread-safe: callers take turns.
class Executor {
 public:
  /// `read_ahead`: see Compute.
  Executor(const Network& network, const NumericSettings& settings, int threads, bool read_ahead);

  /// Makes room in every run's cache, computes, and advances the caches. logits [sum of wanted, vocab]; may
  /// be empty where no logits are wanted. Throws Error(kLimit) before anything is computed.
  void forward(std::span<const Run> runs, MatrixView<float> logits, Taps* taps = nullptr);

  /// From the next forward on, steps are charged to `profile`; null ends that.
  void profile(StepProfile* profile);

  int threads() const { return pool_.size(); }
  /// Memory of the step's scratch.
  std::int64_t scratch_bytes() const { return static_cast<std::int64_t>(arena_.capacity()); }

 private:
  const Network& network_;
  std::mutex mutex_;
  ThreadPool pool_;
  Arena arena_;
  Compute compute_;
};

}  // namespace seekline
