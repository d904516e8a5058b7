// One layer's latent attention at V2-Lite's shape (16 heads; the rest is every generation's), by absorb and
// by expand, beside what the cost rule (model/latent_cost.h) says: where the rule's rates come from, and
// whether it still chooses right.
#include <random>

#include "attention/latent_heads.h"
#include "formats/elements.h"
#include "kernel_bench.h"
#include "model/latent_cost.h"
#include "model/mla_attention.h"

namespace seekline {
namespace {

constexpr int kHeads = 16;
constexpr std::int64_t kMostRows = 4096;

struct Layer {
  LatentHeads heads;
  CachePlan plan;
  Buffer<std::uint16_t> kv_b;

  Layer() {
    heads.heads = kHeads;
    heads.latent = 512;
    heads.nope = heads.value = 128;
    heads.rope = 64;
    const std::int64_t rows = kHeads * heads.head_rows();
    kv_b = Buffer<std::uint16_t>(static_cast<std::size_t>(rows * heads.latent));
    std::mt19937 random(1);
    for (std::size_t i = 0; i < kv_b.size(); ++i)
      kv_b[i] = f32_to_bf16(static_cast<float>(random() % 2001) * 1e-4f - 0.1f);
    heads.kv_b = {WeightKind::kBF16,
                  ScaleKind::kNone,
                  rows,
                  heads.latent,
                  reinterpret_cast<const std::uint8_t*>(kv_b.data()),
                  nullptr,
                  0,
                  0};
    plan.model = "bench";
    plan.stores.push_back({0, 0, StoreKind::kMain, {RowKind::kBF16, heads.latent_width()}, 1, 0, "main"});
    plan.layers.resize(1);
    plan.layers[0].main = 0;
    plan.layers[0].writes = {0};
    plan.layers[0].select.how = Select::How::kAll;
  }
};

// A cache with kMostRows rows, and a batch of the last tokens of its first `rows`.
class Step {
 public:
  Step(std::int64_t tokens, std::int64_t rows)
      : pages_(layer_.plan),
        cache_(pages_),
        compute_{kernels(), kernel_bench::pool(), arena_, {}},
        q_(static_cast<std::size_t>(tokens * kHeads * layer_.heads.key_width())),
        tokens_(static_cast<std::size_t>(tokens)) {
    std::mt19937 random(2);
    std::normal_distribution<float> normal;
    std::vector<float> row(static_cast<std::size_t>(layer_.heads.latent_width()));
    cache_.reserve(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (float& v : row) v = normal(random);
      const MutableRow to = cache_.mutable_row(0, r);
      compute_.kernels.encode_row(layer_.plan.stores[0].row, row.data(), to.data, to.scale);
    }
    for (std::size_t i = 0; i < q_.size(); ++i) q_[i] = normal(random);
    run_.cache = &cache_;
    run_.first_position = rows - tokens;
    run_.tokens = tokens_;
  }

  void absorb() { attend(attend_absorbed); }
  void expand() { attend(attend_expanded); }
  const LatentHeads& heads() const { return layer_.heads; }

 private:
  MatrixView<const float> queries() const {
    return {q_.data(), static_cast<std::int64_t>(tokens_.size()), kHeads * layer_.heads.key_width()};
  }
  template <typename Order>
  void attend(Order order) {
    Arena::Scope scope(arena_);
    const TokenBatch batch = flatten(arena_, {&run_, 1});
    const MatrixView<float> out = arena_.matrix(batch.count, std::int64_t{kHeads} * layer_.heads.value);
    order(compute_, layer_.heads, batch, rows(), queries(), out);
    benchmark::DoNotOptimize(out.data);
  }
  LatentRows rows() const { return {0, &layer_.plan.stores[0], nullptr, 0.07f}; }

  Layer layer_;
  PagePool pages_;
  SequenceCache cache_;
  Arena arena_;
  Compute compute_;
  Buffer<float> q_;
  std::vector<std::int32_t> tokens_;
  Run run_;
};

void order(benchmark::State& state, bool expand) {
  Step step(state.range(0), state.range(1));
  double best = 1e30;
  for (auto _ : state) {
    const double seconds = kernel_bench::seconds_of([&] { expand ? step.expand() : step.absorb(); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const double rule = expand ? expand_cost(step.heads(), state.range(0), state.range(1), true)
                             : absorb_cost(step.heads(), state.range(0), state.range(1));
  state.counters["best_ms"] = best * 1e3;
  state.counters["rule_ms"] = rule * 1e-6;
}

void absorb(benchmark::State& state) { order(state, false); }
void expand(benchmark::State& state) { order(state, true); }

#define SHAPES                                                      \
  ->ArgNames({"tokens", "rows"})                                    \
      ->ArgsProduct({{1, 16, 64, 128, 256, 512}, {512, kMostRows}}) \
      ->UseManualTime()                                             \
      ->Unit(benchmark::kMillisecond)                               \
      ->MinTime(0.2)

BENCHMARK(absorb) SHAPES;
BENCHMARK(expand) SHAPES;

}  // namespace
}  // namespace seekline
