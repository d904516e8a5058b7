// Norms, stream mixing, SwiGLU and input quantizers on one thread, out of the second cache: bytes touched a
// second against a plain read of as many.
#include <vector>

#include "kernel_bench.h"

namespace seekline {
namespace {

using namespace kernel_bench;

constexpr std::int64_t kHidden = 5120;

/// `work` touches `bytes` bytes.
template <typename Work>
void run(benchmark::State& state, std::int64_t bytes, Work work) {
  constexpr int kTimes = 64;
  double read = 1e30, best = 1e30;
  for (auto _ : state) {
    read = std::min(read, seconds_of([&] {
                      for (int i = 0; i < kTimes; ++i)
                        benchmark::DoNotOptimize(probe_read(weight_bytes(), bytes));
                    }));
    const double now = seconds_of([&] {
      for (int i = 0; i < kTimes; ++i) work();
    });
    best = std::min(best, now);
    state.SetIterationTime(now / kTimes);
  }
  state.counters["GB/s"] = static_cast<double>(bytes) * kTimes / best * 1e-9;
  state.counters["share"] = read / best;
}

std::vector<float> values(std::int64_t n) {
  std::vector<float> v(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 17) * 0.25f - 2.0f;
  return v;
}

void rms_norm(benchmark::State& state) {
  const auto x = values(kHidden), w = values(kHidden);
  auto y = values(kHidden);
  run(state, 3 * kHidden * 4, [&] { kernels().rms_norm(x.data(), w.data(), kHidden, 1e-6f, y.data()); });
}

void stream_mix(benchmark::State& state) {
  auto h = values(4 * kHidden);
  const auto y = values(kHidden), post = values(4);
  std::vector<float> comb(16, 0.25f);
  run(state, 9 * kHidden * 4,
      [&] { kernels().stream_mix(h.data(), y.data(), post.data(), comb.data(), 4, kHidden); });
}

void swiglu(benchmark::State& state) {
  const auto gate = values(2304), up = values(2304);
  auto out = values(2304);
  run(state, 3 * 2304 * 4, [&] { kernels().swiglu(gate.data(), up.data(), 2304, 10, 0.5f, out.data()); });
}

void quantize_input(benchmark::State& state) {
  const auto x = values(kHidden);
  const Kernels& k = kernels();
  const auto kind = static_cast<WeightKind>(state.range(0));
  Buffer<std::uint8_t> out(static_cast<std::size_t>(k.prepared_bytes(kind, Arithmetic::kFast, kHidden)));
  run(state, kHidden * 6, [&] {
    k.prepare(kind, Arithmetic::kFast, BlockQuantizer::kFp8Block32, x.data(), kHidden, out.data());
  });
}

BENCHMARK(rms_norm)->UseManualTime()->Iterations(10)->Unit(benchmark::kMicrosecond);
BENCHMARK(stream_mix)->UseManualTime()->Iterations(10)->Unit(benchmark::kMicrosecond);
BENCHMARK(swiglu)->UseManualTime()->Iterations(10)->Unit(benchmark::kMicrosecond);
BENCHMARK(quantize_input)
    ->ArgName("kind")
    ->Arg(static_cast<int>(WeightKind::kE4M3))
    ->Arg(static_cast<int>(WeightKind::kE2M1))
    ->UseManualTime()
    ->Iterations(10)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace seekline
