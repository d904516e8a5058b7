// The prefix store with V4.1-Flash's cache plan: handing over, writing, looking up, restoring, and what
// writing takes from a reader of weights. The folder lies in TMPDIR.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>

#include <nlohmann/json.hpp>

#include "checkpoint/presets.h"
#include "core/temp_folder.h"
#include "core/thread_pool.h"
#include "kernels/probe.h"
#include "model/network.h"
#include "persist/prefix_store.h"

namespace seekline {
namespace {

constexpr std::int64_t kTokens = 32768;

// A store and a sequence of kTokens tokens, whose rows hold anything.
struct Flash {
  Flash() : pool(plan()), cache(pool) {
    tokens.resize(kTokens);
    std::iota(tokens.begin(), tokens.end(), 0);
    fill(cache, tokens);
    open();
  }

  static CachePlan plan() { return plan_of_config(preset_config("v41-flash"), "v41-flash", Rows::kDeployed); }

  static void fill(SequenceCache& cache, std::span<const std::int32_t> tokens) {
    cache.reserve(static_cast<std::int64_t>(tokens.size()));
    for (const Store& store : cache.plan().stores)
      for (std::int64_t row = 0;
           store.growing() && row < store.rows_at(static_cast<std::int64_t>(tokens.size())); ++row)
        std::memset(cache.mutable_row(store.id, row).data, static_cast<int>(row),
                    static_cast<std::size_t>(store.row.data_bytes()));
    cache.advance(0, tokens);
  }

  void open() {
    PrefixStoreOptions options;
    options.folder = folder.path();
    options.limit_bytes = std::int64_t{4} << 30;
    store = std::make_unique<PrefixStore>(pool.plan(), ModelIdentity{Key{{1}}, "{}"}, options);
  }

  TempFolder folder;
  PagePool pool;
  SequenceCache cache;
  std::vector<std::int32_t> tokens;
  std::unique_ptr<PrefixStore> store;
};

void HandOver(benchmark::State& state) {
  Flash flash;
  std::int32_t first = 1000000;
  for (auto run : state) {
    state.PauseTiming();
    flash.store->flush();
    SequenceCache cache(flash.pool);
    flash.tokens[0] = ++first;  // another chain
    Flash::fill(cache, flash.tokens);
    state.ResumeTiming();
    flash.store->store(cache, SnapshotPart::kAll);
  }
}
BENCHMARK(HandOver)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(10);

void HandOverAndWrite(benchmark::State& state) {
  Flash flash;
  std::int32_t first = 2000000;
  for (auto run : state) {
    state.PauseTiming();
    SequenceCache cache(flash.pool);
    flash.tokens[0] = ++first;
    Flash::fill(cache, flash.tokens);
    state.ResumeTiming();
    flash.store->store(cache, SnapshotPart::kAll);
    flash.store->flush();
  }
  state.SetBytesProcessed(state.iterations() * kTokens * 890);
}
BENCHMARK(HandOverAndWrite)->Unit(benchmark::kMillisecond)->UseRealTime()->Iterations(10);

void Lookup(benchmark::State& state) {
  Flash flash;
  flash.store->store(flash.cache, SnapshotPart::kAll);
  flash.store->flush();
  std::int64_t found = 0;
  for (auto run : state) found = flash.store->lookup(flash.tokens).length();
  state.counters["tokens"] = static_cast<double>(found);
}
BENCHMARK(Lookup)->Unit(benchmark::kMillisecond)->UseRealTime();

void Restore(benchmark::State& state) {
  Flash flash;
  flash.store->store(flash.cache, SnapshotPart::kAll);
  flash.store->flush();
  for (auto run : state) {
    const PrefixHit hit = flash.store->lookup(flash.tokens);
    SequenceCache cache(flash.pool);
    std::string why_not;
    const bool rings = flash.store->restore_snapshot(hit, cache, why_not);
    if (flash.store->restore(hit, hit.length(), cache).length != kTokens || !rings)
      state.SkipWithError("not restored");
  }
  state.SetBytesProcessed(state.iterations() * kTokens * 890);
}
BENCHMARK(Restore)->Unit(benchmark::kMillisecond)->UseRealTime();

void OpenStore(benchmark::State& state) {
  Flash flash;
  flash.store->store(flash.cache, SnapshotPart::kAll);
  for (auto run : state) {
    flash.store.reset();
    flash.open();
  }
}
BENCHMARK(OpenStore)->Unit(benchmark::kMillisecond)->UseRealTime();

// A decode step is a read of weights on all threads: here 1 GiB. Steps that begin with handing over `range`
// tokens, and run while they are written, take turns with steps of their own. Counters: the median step of
// each, in milliseconds, and the speed that is left.
void ReadWeightsWhileWriting(benchmark::State& state) {
  Flash flash;
  ThreadPool threads(default_threads());
  const std::vector<std::uint8_t> weights(std::size_t{1} << 30, 1);
  const std::int64_t share = static_cast<std::int64_t>(weights.size()) / threads.size();
  std::vector<double> quiet, writing;
  std::int32_t first = 3000000;
  const auto step = [&](SequenceCache* cache) {
    const auto start = std::chrono::steady_clock::now();
    if (cache != nullptr) flash.store->store(*cache);
    threads.run(
        [&](int worker) { benchmark::DoNotOptimize(probe_read(weights.data() + worker * share, share)); });
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  for (auto run : state) {
    SequenceCache cache(flash.pool);
    flash.tokens[0] = ++first;
    Flash::fill(cache, std::span(flash.tokens).first(static_cast<std::size_t>(state.range(0))));
    quiet.push_back(step(nullptr));
    writing.push_back(step(&cache));
    flash.store->flush();
  }
  const auto median = [](std::vector<double>& list) {
    std::nth_element(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(list.size() / 2), list.end());
    return list[list.size() / 2];
  };
  state.counters["quiet"] = median(quiet);
  state.counters["writing"] = median(writing);
  state.counters["speed_left"] = median(quiet) / median(writing);
}
BENCHMARK(ReadWeightsWhileWriting)
    ->Arg(1)
    ->Arg(256)
    ->Arg(2048)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->Iterations(100);

}  // namespace
}  // namespace seekline
