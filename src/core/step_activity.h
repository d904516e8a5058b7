// Whether a model computes in this process right now. What works beside it holds back.
#pragma once

#include <chrono>

namespace seekline {

/// A step of some model runs while an object lives. Thread-safe.
class StepActivity {
 public:
  StepActivity();
  ~StepActivity();
  StepActivity(const StepActivity&) = delete;
  StepActivity& operator=(const StepActivity&) = delete;

  /// A step runs now, or ended less than `lately` ago: between two steps of one answer is no pause.
  static bool any(std::chrono::steady_clock::duration lately);
};

}  // namespace seekline
