// What the machine can do at best, measured again and again beside the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

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
  std::int64_t bytes() const { return bytes_; }
  ThreadPool& pool() { return pool_; }

 private:
  struct Unmap {
    std::size_t bytes;
    void operator()(std::uint8_t* memory) const;
  };

  ThreadPool pool_;
  std::int64_t bytes_;
  std::unique_ptr<std::uint8_t[], Unmap> memory_;
};

}  // namespace seekline
