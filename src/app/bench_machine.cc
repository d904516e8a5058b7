#include "app/bench_machine.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>

#include "kernels/probe.h"

namespace seekline {
namespace {

constexpr std::size_t kReadBytes = std::size_t{2} << 30;
constexpr double kDotSeconds = 0.02;

template <typename Work>
double seconds_of(Work&& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double dots_per_second(ThreadPool& pool, double (*dots)(std::int64_t)) {
  constexpr std::int64_t kTrial = 20000;
  const double operations = dots(1);
  if (operations == 0) return 0;
  const double trial = seconds_of([&] { dots(kTrial); });
  const auto rounds = static_cast<std::int64_t>(kDotSeconds / trial * kTrial) + 1;
  const double seconds = seconds_of([&] { pool.run([&](int) { dots(rounds); }); });
  return operations * static_cast<double>(rounds) * pool.size() / seconds;
}

}  // namespace

MachineProbe::MachineProbe(int threads) : pool_(threads), memory_(kReadBytes) {
  // Huge pages where the system has them at once: a plain read at its best.
  constexpr std::uintptr_t kHuge = std::uintptr_t{2} << 20;
  const auto begin = (reinterpret_cast<std::uintptr_t>(memory_.data()) + kHuge - 1) / kHuge * kHuge;
  const auto end = (reinterpret_cast<std::uintptr_t>(memory_.data()) + memory_.size()) / kHuge * kHuge;
  constexpr int kCollapse = 25;  // MADV_COLLAPSE, which Debian 12's headers do not name
  madvise(reinterpret_cast<void*>(begin), end - begin, kCollapse);
}

MachineRates MachineProbe::measure() {
  std::atomic<std::uint64_t> sum{0};
  MachineRates rates;
  const double seconds = seconds_of([&] {
    pool_.split(static_cast<std::int64_t>(memory_.size()), 4096,
                [&](WorkRange range, int) { sum ^= probe_read(memory_.data() + range.begin, range.size()); });
  });
  rates.read_bytes_s = static_cast<double>(memory_.size()) / seconds;
  rates.bf16_ops_s = dots_per_second(pool_, probe_bf16_dots);
  rates.int8_ops_s = dots_per_second(pool_, probe_int8_dots);
  return rates;
}

}  // namespace seekline
