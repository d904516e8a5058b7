// Attention of one token over gathered rows: its operations against the bf16 dot peak, decoding of rows
// included.
#include <vector>

#include "attention/gather_attend.h"
#include "kernel_bench.h"

namespace seekline {
namespace {

using namespace kernel_bench;

/// The rows of one token of V4.1: 512 selected ones and a window of 128, of 512 channels each.
struct Rows {
  RowFormat main{RowKind::kV41Fp4, 512}, window{RowKind::kV41Fp8, 512};
  Buffer<std::uint8_t> data, scale;
  std::vector<RowRef> selected, recent;

  Rows() : data((512 + 128) * 512), scale((512 + 128) * 32) {
    std::memcpy(data.data(), weight_bytes(), data.size());
    for (std::size_t i = 0; i < scale.size(); ++i)
      scale[i] = i < 512 * 32 ? 0x30 : 124;  // e4m3 and ue8m0: about 1/8
    for (int r = 0; r < 512; ++r) selected.push_back({data.data() + r * 256, scale.data() + r * 32});
    for (int r = 0; r < 128; ++r)
      recent.push_back({data.data() + 512 * 256 + r * 512, scale.data() + 512 * 32 + r * 16});
  }
};

void gathered(benchmark::State& state) {
  const int tokens = static_cast<int>(state.range(0)), heads = static_cast<int>(state.range(1));
  const Rows rows;
  Arena arena;
  Compute compute{kernels(), pool(), arena, {}};
  Buffer<float> q(static_cast<std::size_t>(tokens * heads) * 512), out(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  std::vector<GatherQuery> queries;
  for (int t = 0; t < tokens; ++t) {
    const std::int64_t at = std::int64_t{t} * heads * 512;
    queries.push_back({q.data() + at,
                       out.data() + at,
                       {{&rows.main, rows.selected.data(), 512}, {&rows.window, rows.recent.data(), 128}}});
  }
  GatherShape shape;
  shape.heads = heads;
  shape.key_width = shape.value_width = 512;
  shape.scale = 0.044f;
  PeakShare share;
  for (auto _ : state)
    state.SetIterationTime(share.step(probe_bf16_dots, [&] { gather_attend(compute, shape, queries); }));
  const double operations = 4.0 * tokens * heads * 640 * 512;
  state.counters["GFLOP/s"] = operations / share.work * 1e-9;
  state.counters["peak_GFLOP/s"] = share.peak * 1e-9;
  if (share.peak > 0) state.counters["share"] = operations / share.work / share.peak;
}

BENCHMARK(gathered)
    ->ArgNames({"tokens", "heads"})
    ->ArgsProduct({{1, 8, 64}, {64}})
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace seekline
