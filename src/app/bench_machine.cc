#include "app/bench_machine.h"

#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <new>

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

// On huge pages where the system has them: a plain read at its best.
std::uint8_t* map_memory(std::int64_t bytes) {
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
  return static_cast<std::uint8_t*>(memory);
}

}  // namespace

void MachineProbe::Unmap::operator()(std::uint8_t* memory) const { munmap(memory, bytes); }

MachineProbe::MachineProbe(int threads, std::int64_t read_mib)
    : pool_(threads),
      bytes_(read_mib << 20),
      memory_(map_memory(bytes_), {static_cast<std::size_t>(bytes_)}) {
  pool_.split(bytes_, kPage, [&](WorkRange range, int) {  // real pages, not the one of zeros
    std::memset(memory_.get() + range.begin, 1, static_cast<std::size_t>(range.size()));
  });
}

MachineRates MachineProbe::measure() {
  std::atomic<std::uint64_t> sum{0};
  MachineRates rates;
  const double seconds = seconds_of([&] {
    pool_.split(bytes_, kPage,
                [&](WorkRange range, int) { sum ^= probe_read(memory_.get() + range.begin, range.size()); });
  });
  rates.read_bytes_s = static_cast<double>(bytes_) / seconds;
  rates.bf16_ops_s = dots_per_second(pool_, probe_bf16_dots);
  rates.int8_ops_s = dots_per_second(pool_, probe_int8_dots);
  return rates;
}

}  // namespace seekline
