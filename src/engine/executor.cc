#include "engine/executor.h"

#include "core/step_activity.h"
#include "kernels/exact.h"

namespace seekline {

Executor::Executor(const Network& network, const NumericSettings& settings, int threads, bool read_ahead)
    : network_(network),
      pool_(threads > 0 ? threads : default_threads()),
      compute_{settings.arithmetic == Arithmetic::kF32 ? exact_kernels() : kernels(),
               pool_,
               arena_,
               settings,
               nullptr,
               read_ahead} {}

void Executor::forward(std::span<const Run> runs, MatrixView<float> logits, Taps* taps) {
  const std::lock_guard lock(mutex_);
  const StepActivity active;
  for (const Run& run : runs)
    run.cache->reserve(run.first_position + static_cast<std::int64_t>(run.tokens.size()));
  if (compute_.profile) compute_.profile->start();
  network_.forward(compute_, runs, logits, taps);
  if (compute_.profile) compute_.profile->stop();
  for (const Run& run : runs) run.cache->advance(run.first_position, run.tokens);
}

void Executor::profile(StepProfile* profile) {
  const std::lock_guard lock(mutex_);
  compute_.profile = profile;
}

}  // namespace seekline
