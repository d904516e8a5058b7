// Attention of a few tokens over gathered rows: its operations against the bf16 dot peak, decoding of rows
// included.
#include <vector>

#include "attention/gather_attend.h"
#include "kernel_bench.h"

namespace seekline {
namespace {

using namespace kernel_bench;

/// What a token of some model attends to.
struct Case {
  const char* name;
  RowFormat format;  ///< of the selected rows
  int rows;
  RowFormat window_format;
  int window;
  GatherShape shape;
};

GatherShape shape_of(int heads, int kv_heads, int key_width, int value_width, int value_first) {
  GatherShape shape;
  shape.heads = heads;
  shape.kv_heads = kv_heads;
  shape.key_width = key_width;
  shape.value_width = value_width;
  shape.value_first = value_first;
  shape.scale = 0.044f;
  return shape;
}

const Case kCases[] = {
    {"V4.1", {RowKind::kV41Fp4, 512}, 512, {RowKind::kV41Fp8, 512}, 128, shape_of(64, 1, 512, 512, 0)},
    {"V3.2", {RowKind::kMlaFp8, 576, 64}, 2048, {}, 0, shape_of(128, 1, 576, 512, 0)},
    {"V2-Lite", {RowKind::kBF16, 576}, 1024, {}, 0, shape_of(16, 1, 576, 512, 0)},
    {"SmolLM2", {RowKind::kBF16, 384}, 129, {}, 0, shape_of(9, 3, 64, 64, 192)},
};

/// Rows of a format as formula bytes.
struct Rows {
  RowFormat format;
  Buffer<std::uint8_t> data, scale;
  std::vector<RowRef> refs;

  Rows(const RowFormat& f, int count)
      : format(f),
        data(static_cast<std::size_t>(count * f.data_bytes()) + 1),
        scale(static_cast<std::size_t>(count * f.scale_bytes()) + 1) {
    std::memcpy(data.data(), weight_bytes(), data.size());
    // About 1/8 as e4m3, ue8m0 or f32.
    const std::uint8_t code = f.kind == RowKind::kV41Fp4 ? 0x30 : f.kind == RowKind::kMlaFp8 ? 0x3E : 124;
    std::memset(scale.data(), code, scale.size());
    for (int r = 0; r < count; ++r)
      refs.push_back({data.data() + r * f.data_bytes(), scale.data() + r * f.scale_bytes()});
  }
  RowSegment segment() const { return {&format, refs.data(), static_cast<int>(refs.size())}; }
};

void gathered(benchmark::State& state) {
  const Case& c = kCases[state.range(0)];
  const int tokens = static_cast<int>(state.range(1));
  state.SetLabel(c.name);
  const Rows rows(c.format, c.rows);
  const Rows window(c.window > 0 ? c.window_format : c.format, c.window);
  Arena arena;
  Compute compute{kernels(), pool(), arena, {}};
  const GatherShape& shape = c.shape;
  Buffer<float> q(static_cast<std::size_t>(tokens * shape.heads * shape.key_width)),
      out(static_cast<std::size_t>(tokens * shape.heads * shape.value_width));
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  std::vector<GatherQuery> queries;
  for (std::int64_t t = 0; t < tokens; ++t)
    queries.push_back({q.data() + t * shape.heads * shape.key_width,
                       out.data() + t * shape.heads * shape.value_width,
                       {rows.segment(), window.segment()}});
  PeakShare share;
  for (auto _ : state)
    state.SetIterationTime(share.step(probe_bf16_dots, [&] { gather_attend(compute, shape, queries); }));
  const double operations =
      2.0 * tokens * shape.heads * (c.rows + c.window) * (shape.key_width + shape.value_width);
  state.counters["GFLOP/s"] = operations / share.work * 1e-9;
  state.counters["peak_GFLOP/s"] = share.peak * 1e-9;
  if (share.peak > 0) state.counters["share"] = operations / share.work / share.peak;
}

BENCHMARK(gathered)
    ->ArgNames({"case", "tokens"})
    ->ArgsProduct({{0, 1, 2, 3}, {1, 8, 64}})
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace seekline
