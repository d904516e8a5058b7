// What the kernel benches share: threads, memory larger than any cache, and the machine's limits, measured
// between the repetitions of each bench so that a noisy neighbour slows both alike.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>

#include "core/arena.h"
#include "core/buffer.h"
#include "core/thread_pool.h"
#include "kernels/probe.h"
#include "kernels/table.h"

namespace seekline::kernel_bench {

inline constexpr std::int64_t kPoolBytes = std::int64_t{1} << 30;

inline ThreadPool& pool() {
  static ThreadPool threads(default_threads());
  return threads;
}

/// Bytes that are finite, normal values in every weight format, on huge pages as a model's weights.
inline const std::uint8_t* weight_bytes() {
  static Arena arena;
  static const std::uint8_t* bytes = [] {
    const std::span<std::uint8_t> b(arena.bytes(kPoolBytes + 4096),
                                    static_cast<std::size_t>(kPoolBytes) + 4096);
    std::uint32_t state = 1;
    for (std::size_t i = 0; i < 65536; ++i) {
      state = state * 1664525u + 1013904223u;
      b[i] = static_cast<std::uint8_t>(((state >> 24) & 0xBF) | 0x20);
    }
    for (std::size_t i = 65536; i + 65536 <= b.size(); i += 65536) std::memcpy(&b[i], &b[0], 65536);
    return b.data();
  }();
  return bytes;
}

template <typename Work>
double seconds_of(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Best seconds of reading `bytes` from `data` and of `work`, measured in turn.
struct Share {
  double read = 1e30, work = 1e30;

  template <typename Work>
  double step(const std::uint8_t* data, std::int64_t bytes, Work run) {
    read = std::min(read, seconds_of([&] {
                      pool().split(bytes, 4096, [&](WorkRange range, int) {
                        benchmark::DoNotOptimize(probe_read(data + range.begin, range.size()));
                      });
                    }));
    const double now = seconds_of(run);
    work = std::min(work, now);
    return now;
  }
};

/// Best seconds of `work` and of the same number of bf16 (or int8) operations in registers, measured in turn.
struct PeakShare {
  double peak = 0, work = 1e30;  // operations a second; seconds

  template <typename Work>
  double step(double (*dots)(std::int64_t), Work run) {
    constexpr std::int64_t kRounds = 200000;
    const double operations = dots(1) * kRounds * pool().size();
    peak = std::max(peak, operations / seconds_of([&] { pool().run([&](int) { dots(kRounds); }); }));
    const double now = seconds_of(run);
    work = std::min(work, now);
    return now;
  }
};

}  // namespace seekline::kernel_bench
