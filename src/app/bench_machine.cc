#include "app/bench_machine.h"

#include <atomic>
#include <chrono>
#include <cstring>

#include "kernels/probe.h"

namespace seekline {
namespace {

constexpr std::int64_t kPage = 4096;
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

MachineProbe::MachineProbe(int threads, std::int64_t read_mib)
    : pool_(threads), bytes_(read_mib << 20), memory_(arena_.bytes(bytes_)) {
  pool_.split(bytes_, kPage, [&](WorkRange range, int) {  // real pages, not the one of zeros
    std::memset(memory_ + range.begin, 1, static_cast<std::size_t>(range.size()));
  });
}

double MachineProbe::read_bytes_s() {
  std::atomic<std::uint64_t> sum{0};
  const double seconds = seconds_of([&] {
    pool_.split(bytes_, kPage,
                [&](WorkRange range, int) { sum ^= probe_read(memory_ + range.begin, range.size()); });
  });
  return static_cast<double>(bytes_) / seconds;
}

MachineRates MachineProbe::measure() {
  MachineRates rates;
  rates.read_bytes_s = read_bytes_s();
  rates.bf16_ops_s = dots_per_second(pool_, probe_bf16_dots);
  rates.int8_ops_s = dots_per_second(pool_, probe_int8_dots);
  return rates;
}

}  // namespace seekline
