// What the machine can do at best, measured again and again beside the model.
#pragma once

#include <cstdint>

#include "core/buffer.h"
#include "core/thread_pool.h"

namespace seekline {

struct MachineRates {
  double read_bytes_s = 0;
  double bf16_ops_s = 0;  ///< 0: this CPU has no bf16 dot products
  double int8_ops_s = 0;
};

/// Owns threads and 2 GB of memory that no cache holds.
class MachineProbe {
 public:
  explicit MachineProbe(int threads);

  /// One reading of all three, about a quarter of a second.
  MachineRates measure();
  std::int64_t bytes() const { return static_cast<std::int64_t>(memory_.size()); }
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  Buffer<std::uint8_t> memory_;
};

}  // namespace seekline
