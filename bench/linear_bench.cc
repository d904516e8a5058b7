// Products with weights: few tokens against the time of reading the same bytes, many against the bf16 dot
// peak.
#include <vector>

#include "kernel_bench.h"
#include "kernels/row_pitch.h"

namespace seekline {
namespace {

using namespace kernel_bench;

struct Family {
  const char* name;
  WeightKind kind;
  ScaleKind scale_kind;
  int block_rows, block_cols;
  Arithmetic arithmetic = Arithmetic::kFast;
};

const Family kFamilies[] = {
    {"bf16", WeightKind::kBF16, ScaleKind::kNone, 0, 0},
    {"e4m3_32x32", WeightKind::kE4M3, ScaleKind::kUE8M0, 32, 32},
    {"e4m3_128x128_f32", WeightKind::kE4M3, ScaleKind::kF32, 128, 128},
    {"e2m1", WeightKind::kE2M1, ScaleKind::kUE8M0, 1, 32},
    {"f32", WeightKind::kF32, ScaleKind::kNone, 0, 0},
    {"bf16, inputs f32", WeightKind::kBF16, ScaleKind::kNone, 0, 0, Arithmetic::kF32}};

/// All matrices of one shape that fit the pool, one after the other, times the same tokens.
class Layer {
 public:
  Layer(const Family& family, std::int64_t rows, std::int64_t cols, std::int64_t tokens,
        std::int64_t most_bytes)
      : tokens_(tokens), arithmetic_(family.arithmetic) {
    view_ = {family.kind,       family.scale_kind, rows, cols, nullptr, nullptr,
             family.block_rows, family.block_cols};
    matrices_ = std::max<std::int64_t>(1, most_bytes / (view_.rows * view_.row_bytes()));
    std::uint8_t* scales = arena_.bytes(view_.scale_bytes() * matrices_);
    const float scale = 0.125f;
    for (std::int64_t i = 0; i < view_.scale_bytes() * matrices_; ++i)
      scales[i] =
          family.scale_kind == ScaleKind::kF32 ? reinterpret_cast<const std::uint8_t*>(&scale)[i % 4] : 124;
    view_.scales = scales;
    const Kernels& k = kernels();
    row_ = row_pitch(k.prepared_bytes(view_.kind, arithmetic_, cols));
    std::uint8_t* prepared = arena_.bytes(row_ * tokens);
    scratch_bytes_ = whole_lines(k.matmul_scratch_bytes(cols));
    scratch_ = arena_.bytes(scratch_bytes_ * pool().size());
    float* out = arena_.array<float>(rows * tokens);
    std::vector<float> values(static_cast<std::size_t>(cols));
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i * 7 + static_cast<std::size_t>(t)) % 13) - 6;
      k.prepare(view_.kind, arithmetic_, BlockQuantizer::kNone, values.data(), cols, prepared + t * row_);
      x_.push_back(prepared + t * row_);
      y_.push_back(out + t * rows);
    }
  }

  std::int64_t bytes() const { return matrices_ * view_.bytes(); }
  double operations() const {
    return 2.0 * static_cast<double>(matrices_ * view_.rows * view_.cols) * static_cast<double>(tokens_);
  }

  void run() {
    for (std::int64_t i = 0; i < matrices_; ++i) {
      pool().split(view_.rows, 16, [&](WorkRange range, int worker) {
        Matmul m;
        m.w = view_;
        m.w.data = weight_bytes() + i * view_.rows * view_.row_bytes();
        m.w.scales = view_.scales + i * view_.scale_bytes();
        m.arithmetic = arithmetic_;
        m.row_begin = range.begin;
        m.row_end = range.end;
        m.x = x_.data();
        m.y = y_.data();
        m.tokens = tokens_;
        m.scratch = scratch_ + worker * scratch_bytes_;
        if (i + 1 < matrices_) {
          m.prefetch = m.w.data + (view_.rows + range.begin) * view_.row_bytes();
          m.prefetch_bytes = 65536;
        }
        kernels().matmul(m);
      });
    }
  }

 private:
  WeightView view_;
  std::int64_t tokens_, matrices_, row_, scratch_bytes_;
  Arithmetic arithmetic_;
  Arena arena_;
  std::uint8_t* scratch_ = nullptr;
  std::vector<const std::uint8_t*> x_;
  std::vector<float*> y_;
};

void few(benchmark::State& state) {
  const Family& family = kFamilies[state.range(0)];
  Layer layer(family, state.range(1), state.range(2), state.range(3), kPoolBytes / 2);
  Share share;
  for (auto _ : state)
    state.SetIterationTime(share.step(weight_bytes(), layer.bytes(), [&] { layer.run(); }));
  state.counters["GB/s"] = static_cast<double>(layer.bytes()) / share.work * 1e-9;
  state.counters["read_GB/s"] = static_cast<double>(layer.bytes()) / share.read * 1e-9;
  state.counters["share"] = share.read / share.work;
  state.SetLabel(family.name);
}

void many(benchmark::State& state) {
  const Family& family = kFamilies[state.range(0)];
  Layer layer(family, state.range(1), state.range(2), state.range(3), 0);
  PeakShare share;
  for (auto _ : state) state.SetIterationTime(share.step(probe_bf16_dots, [&] { layer.run(); }));
  state.counters["GFLOP/s"] = layer.operations() / share.work * 1e-9;
  state.counters["peak_GFLOP/s"] = share.peak * 1e-9;
  if (share.peak > 0) state.counters["share"] = layer.operations() / share.work / share.peak;
  state.SetLabel(family.name);
}

BENCHMARK(few)
    ->ArgNames({"kind", "rows", "cols", "tokens"})
    ->ArgsProduct({{0, 1, 2, 3, 4, 5}, {2048}, {5120}, {1}})
    ->ArgsProduct({{1, 3, 5}, {2048}, {5120}, {2, 3, 4}})
    ->ArgsProduct({{0, 1, 3, 4, 5}, {2048}, {5120}, {5, 8, 16}})
    ->Args({3, 5120, 2304, 1})
    ->Args({1, 32768, 1280, 1})
    ->Args({2, 7168, 7168, 1})
    ->Args({2, 7168, 16384, 1})
    ->Args({0, 2048, 1408, 1})
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

BENCHMARK(many)
    ->ArgNames({"kind", "rows", "cols", "tokens"})
    ->ArgsProduct({{0, 1, 2, 3}, {1536}, {5120}, {8, 48, 512}})
    ->Args({3, 5120, 1536, 512})
    ->UseManualTime()
    ->Iterations(5)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace seekline
