// Index scores over consecutive fp4 keys, and the selection: operations against the int8 dot peak.
#include <vector>

#include "attention/select.h"
#include "kernel_bench.h"

namespace seekline {
namespace {

using namespace kernel_bench;

void scan(benchmark::State& state) {
  constexpr int kHeads = 32;
  const std::int64_t rows = state.range(0), page = 128;
  const RowFormat format{RowKind::kIndexFp4, 128};
  const Kernels& k = kernels();
  std::vector<float> q(kHeads * 128), weights(kHeads, 0.1f), scores(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 11) * 0.3f - 1.5f;
  Buffer<std::uint8_t> query(static_cast<std::size_t>(k.index_query_bytes(format, kHeads)));
  k.prepare_index_query(format, q.data(), kHeads, query.data());
  Buffer<std::uint8_t> scale(static_cast<std::size_t>(rows * 4));
  std::memset(scale.data(), 126, scale.size());
  PeakShare share;
  for (auto _ : state)
    state.SetIterationTime(share.step(probe_int8_dots, [&] {
      pool().split(rows, page, [&](WorkRange range, int) {
        for (std::int64_t first = range.begin; first < range.end; first += page) {
          IndexScores args;
          args.format = format;
          args.q = query.data();
          args.weights = weights.data();
          args.heads = kHeads;
          args.data = weight_bytes() + first * 64;
          args.scale = scale.data() + first * 4;
          args.rows = std::min(page, range.end - first);
          args.scores = scores.data() + first;
          k.index_scores(args);
        }
      });
    }));
  const double operations = 2.0 * static_cast<double>(rows) * kHeads * 128;
  state.counters["GOP/s"] = operations / share.work * 1e-9;
  state.counters["peak_GOP/s"] = share.peak * 1e-9;
  state.counters["GB/s"] = static_cast<double>(rows) * 68 / share.work * 1e-9;
  if (share.peak > 0) state.counters["share"] = operations / share.work / share.peak;
}

void select(benchmark::State& state) {
  std::vector<float> scores(static_cast<std::size_t>(state.range(0)));
  std::uint32_t word = 1;
  for (float& s : scores) s = static_cast<float>((word = word * 1664525u + 1013904223u) >> 8);
  std::vector<std::int32_t> best(512), scratch(scores.size());
  Arena arena;
  Share share;
  for (auto _ : state)
    state.SetIterationTime(
        share.step(reinterpret_cast<const std::uint8_t*>(scores.data()), state.range(0) * 4, [&] {
          benchmark::DoNotOptimize(
              select_top_k(pool(), arena, scores.data(), state.range(0), 512, best.data(), scratch.data()));
        }));
  state.counters["GB/s"] = static_cast<double>(state.range(0)) * 4 / share.work * 1e-9;
  state.counters["share"] = share.read / share.work;
}

BENCHMARK(scan)->ArgName("rows")->Arg(2048)->Arg(65536)->Arg(524288)->UseManualTime()->Iterations(5)->Unit(
    benchmark::kMicrosecond);
BENCHMARK(select)->ArgName("rows")->Arg(2048)->Arg(65536)->Arg(524288)->UseManualTime()->Iterations(5)->Unit(
    benchmark::kMicrosecond);

}  // namespace
}  // namespace seekline
