// What the machine can do at best, measured again and again beside the model.
#pragma once

#include <cstdint>

#include "core/arena.h"
#include "core/thread_pool.h"

namespace seekline {

struct MachineRates {
  double read_bytes_s = 0;
  double bf16_ops_s = 0;  ///< 0: this CPU has no bf16 dot products
  double int8_ops_s = 0;
};

/// Owns threads and memory to read.
class MachineProbe {
 public:
  static constexpr std::int64_t kReadMib = 2048;  ///< more than any cache holds

  explicit MachineProbe(int threads, std::int64_t read_mib = kReadMib);

  /// One reading of all three, about a quarter of a second.
  MachineRates measure();
  /// One plain read of all the memory.
  double read_bytes_s();
  std::int64_t bytes() const { return bytes_; }
  ThreadPool& pool() { return pool_; }

 private:
  ThreadPool pool_;
  Arena arena_;  // on huge pages where the system has them: a plain read at its best
  std::int64_t bytes_;
  std::uint8_t* memory_;
};

}  // namespace seekline
