// What a step computes with: kernels, threads, scratch, arithmetic.
#pragma once

#include "core/arena.h"
#include "core/step_profile.h"
#include "core/thread_pool.h"
#include "kernels/table.h"

namespace seekline {

struct Compute {
  const Kernels& kernels;
  ThreadPool& pool;
  Arena& arena;
  NumericSettings settings;
  StepProfile* profile = nullptr;  ///< null: nothing is measured
  /// The weights do not fit in memory: experts known to be read soon are asked of the disk at once. (Rows of
  /// large tables always are.)
  bool read_ahead = false;

  /// The input quantizer in force: none where the activations are plain.
  BlockQuantizer activation(BlockQuantizer trained) const {
    return settings.activations == Activations::kReference ? trained : BlockQuantizer::kNone;
  }
};

}  // namespace seekline
