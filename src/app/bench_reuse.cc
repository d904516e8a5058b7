#include "app/bench_reuse.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "app/commands.h"
#include "core/mapped_file.h"
#include "engine/executor.h"
#include "engine/formula_rows.h"
#include "engine/prefix_cache.h"
#include "persist/maintenance.h"
#include "persist/stored_rows.h"

namespace seekline {
namespace {

// Of one round of decoding: the writer works in turns of some milliseconds, with long rests.
constexpr double kRoundSeconds = 5;

constexpr const char* kPlaces[] = {"all in memory", "from the store", "from the store on a cold disk"};

class Stopwatch {
 public:
  Took took() const {
    return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(),
            processor_seconds() - processor_start_};
  }

 private:
  static double processor_seconds() {
    timespec time{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }

  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const double processor_start_ = processor_seconds();
};

// Of each the median: they need not be of one reading.
Took median(const std::vector<Took>& readings) {
  std::vector<double> clock, processor;
  for (const Took& t : readings) {
    clock.push_back(t.clock);
    processor.push_back(t.processor);
  }
  return {spread_of(clock).median, spread_of(processor).median};
}

std::vector<std::int32_t> formula_tokens(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = formula_token(i, vocab);
  return tokens;
}

}  // namespace

Took& Took::operator+=(const Took& other) {
  clock += other.clock;
  processor += other.processor;
  return *this;
}

ReuseBench::ReuseBench(Model& model, const ReuseBudget& budget,
                       std::function<void(const std::string&)> progress)
    : model_(model), budget_(budget), progress_(std::move(progress)) {
  threads_ = std::make_unique<ThreadPool>(model.executor().threads());
  logits_.resize(static_cast<std::size_t>(model.vocab_size()));
}

// Under a fingerprint of its own, so that nothing of before is found.
void ReuseBench::open_store() {
  store_.reset();
  ++fingerprint_.bytes[0];
  reopen_store();
}

void ReuseBench::reopen_store() {
  PrefixStoreOptions options;
  options.folder = folder_.path();
  store_ = std::make_shared<PrefixStore>(model_.plan(), ModelIdentity{fingerprint_, "{}"}, options);
}

std::unique_ptr<RowSource> ReuseBench::rows() const {
  return std::make_unique<StoredRows>(store_, model_.options().decoder, model_.plan());
}

// The store's file is on disk alone afterwards. (Its pages leave the page cache only while nobody maps them.)
void ReuseBench::drop_file() {
  store_.reset();
  const int file = ::open((folder_ / "data.mdb").c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  forget_written(file);
  ::close(file);
}

// Computes up to `most` tokens of what the timeline lacks; its last token answers.
Took ReuseBench::compute(Timeline& timeline, std::int64_t most) {
  const Stopwatch watch;
  for (std::int64_t left = std::min(most, timeline.pending()); left > 0;) {
    Run run = timeline.next_run(std::min(left, model_.options().batch_tokens));
    const auto count = std::ssize(run.tokens);
    const auto wanted = static_cast<std::int32_t>(count - 1);
    const bool last = count == timeline.pending();
    if (last) run.wanted_logits = {&wanted, 1};
    timeline.cache().reserve(run.first_position + count);
    model_.executor().forward({&run, 1}, {logits_.data(), last ? 1 : 0, model_.vocab_size()});
    timeline.ran(run);
    left -= count;
  }
  return watch.took();
}

// One chunk of a prompt of `tokens` tokens, behind rows by formula.
Took ReuseBench::time_chunk(DecoderMode mode, std::int64_t chunk, std::int64_t tokens) {
  const std::int64_t first = chunk * model_.options().batch_tokens;
  progress_(
      fmt::format("prompt of {} tokens, {}: chunk {}", with_commas(tokens), mode_name(mode), chunk + 1));
  Timeline timeline(model_.pages(), mode);
  if (first > 0) {
    fill_with_formula(timeline.cache(), first, model_.vocab_size(), *threads_);
    timeline.rows_restored("memory");
    timeline.add_snapshot(
        std::make_shared<Snapshot>(take_snapshot(timeline.cache(), SnapshotPart::kAll, first)));
  }
  timeline.begin(formula_tokens(tokens, model_.vocab_size()), tokens, ReplayWay::kAuto);
  return compute(timeline, model_.options().batch_tokens);
}

// Both modes take turns at every sampled chunk; straight lines between them. The last chunk, where the
// decoder part runs, stands for itself.
void ReuseBench::sampled_prefill(ReuseResult& result) {
  const std::int64_t chunks = (result.tokens + result.chunk - 1) / result.chunk;
  const std::int64_t samples = std::clamp<std::int64_t>(budget_.sampled_chunks - 1, 2, chunks - 1);
  for (std::int64_t i = 0; i <= samples; ++i) {
    const std::int64_t here = i < samples ? i * (chunks - 2) / (samples - 1) : chunks - 1;
    std::array<std::vector<Took>, 2> took;
    for (int round = 0; round < budget_.rounds; ++round)
      for (const DecoderMode mode : {DecoderMode::kExact, DecoderMode::kCed})
        took[static_cast<std::size_t>(mode)].push_back(time_chunk(mode, here, result.tokens));
    result.chunks.push_back({here * result.chunk, {median(took[0]), median(took[1])}});
  }
  for (std::size_t m = 0; m < 2; ++m) {
    Took sum = result.chunks.front().took[m];
    sum += result.chunks.back().took[m];
    for (std::size_t i = 0; i + 2 < result.chunks.size(); ++i) {
      const ReuseResult::Chunk &a = result.chunks[i], &b = result.chunks[i + 1];
      const std::int64_t chunks = (b.first - a.first) / result.chunk;
      const auto between = static_cast<double>(chunks);
      sum += a.took[m] * ((between - 1) / 2);  // shares c / between of b for c = 1 .. between, the rest of a
      sum += b.took[m] * ((between + 1) / 2);
    }
    result.prefill[m] = sum;
  }
}

void ReuseBench::prefill(ReuseResult& result) {
  const std::int64_t tokens = result.tokens;
  const int layers = static_cast<int>(model_.plan().layers.size());
  const int encoder = model_.plan().first_decoder_layer();
  result.evaluations[static_cast<std::size_t>(DecoderMode::kExact)] = tokens * layers;
  result.evaluations[static_cast<std::size_t>(DecoderMode::kCed)] =
      tokens * encoder + std::min<std::int64_t>(tokens, model_.plan().window) * (layers - encoder);
  time_chunk(DecoderMode::kExact, 0, tokens);  // warms up
  if (budget_.sampled_chunks > 0) return sampled_prefill(result);
  for (const DecoderMode mode : {DecoderMode::kExact, DecoderMode::kCed}) {
    progress_(fmt::format("prompt of {} tokens, {}", with_commas(tokens), mode_name(mode)));
    Timeline timeline(model_.pages(), mode);
    timeline.begin(formula_tokens(tokens, model_.vocab_size()), tokens, ReplayWay::kAuto);
    result.prefill[static_cast<std::size_t>(mode)] = compute(timeline);
  }
}

// Rows of all tokens, and rings where the last window begins: what a prompt leaves. `stores`: in the store
// too.
std::unique_ptr<Timeline> ReuseBench::prefix(std::int64_t tokens, bool stores) {
  auto timeline = std::make_unique<Timeline>(model_.pages(), model_.options().decoder);
  const SnapshotPart part = timeline->ring_part();
  fill_with_formula(timeline->cache(), tokens - model_.plan().window, model_.vocab_size(), *threads_);
  auto rings = std::make_shared<Snapshot>(take_snapshot(timeline->cache(), part));
  if (stores) store_->store(timeline->cache(), part);
  if (stores) store_->flush();
  fill_with_formula(timeline->cache(), tokens, model_.vocab_size(), *threads_);
  if (stores) store_->store(timeline->cache());
  if (stores) store_->flush();
  timeline->rows_restored("memory");
  timeline->rings_lost();
  timeline->add_snapshot(std::move(rings));
  return timeline;
}

// One token more behind the tokens of `kept`, by `way`. Sets the number of tokens that were computed.
Took ReuseBench::time_way(const Timeline& kept, ReplayWay way, Place place, std::int64_t& computed) {
  const std::int64_t tokens = kept.rows();
  const std::vector<std::int32_t> prompt = formula_tokens(tokens + 1, model_.vocab_size());
  if (place == Place::kColdDisk) drop_file();
  const Stopwatch watch;
  std::unique_ptr<Timeline> timeline;
  if (place == Place::kMemory) {
    timeline = kept.fork(tokens);
    timeline->begin(prompt, tokens + 1, way);
  } else {
    if (!store_) reopen_store();
    PrefixCache prefixes(model_.pages(), model_.options().decoder, rows());
    timeline = prefixes.acquire(prompt, tokens + 1, way);
  }
  if (timeline->report().reused_tokens != tokens)
    throw Error(ErrorCode::kInternal,
                fmt::format("{} of {} tokens came back ({})", timeline->report().reused_tokens, tokens,
                            timeline->report().why_not_more));
  computed = timeline->pending();
  compute(*timeline);
  return watch.took();
}

void ReuseBench::ways(ReuseResult& result, ReplayWay way) {
  open_store();
  progress_(fmt::format("storing {} tokens", with_commas(result.tokens)));
  const std::unique_ptr<Timeline> kept = prefix(result.tokens, true);
  result.stored_bytes = store_figures(folder_.path().string()).live_bytes;
  std::array<WayResult, 3> results;
  std::array<std::vector<double>, 3> clock, processor;
  for (int round = 0; round < budget_.rounds; ++round) {
    for (const Place place : {Place::kMemory, Place::kStore, Place::kColdDisk}) {
      const auto i = static_cast<std::size_t>(place);
      results[i].name =
          fmt::format("{}, {}", way == ReplayWay::kAuto ? "snapshot" : "exact replay", kPlaces[i]);
      progress_(fmt::format("going on at {} tokens: {}, round {}", with_commas(result.tokens),
                            results[i].name, round + 1));
      const Took took = time_way(*kept, way, place, results[i].tokens);
      clock[i].push_back(took.clock);
      processor[i].push_back(took.processor);
    }
  }
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].clock = spread_of(clock[i]);
    results[i].processor = spread_of(processor[i]);
    results[i].of_first = {results[i].clock.median / results[0].clock.median,
                           results[i].processor.median / results[0].processor.median};
    result.ways.push_back(results[i]);
  }
}

// Steps behind a prompt whose last tokens a store, where there is one, has just been handed; it gets every
// new row too. Seconds a step.
double ReuseBench::decode_step(std::int64_t tokens, int steps, bool writes) {
  const std::unique_ptr<Timeline> timeline = prefix(tokens, false);
  timeline->begin(formula_tokens(tokens + 1, model_.vocab_size()), tokens + 1, ReplayWay::kAuto);
  compute(*timeline);
  if (writes) open_store();
  PrefixCache prefixes(model_.pages(), model_.options().decoder, writes ? rows() : nullptr);
  const Stopwatch watch;
  if (writes) store_->store(timeline->cache(), timeline->ring_part());
  for (int step = 0; step < steps; ++step) {
    timeline->push(formula_token(step, model_.vocab_size()));
    compute(*timeline);
    prefixes.ran(*timeline);
  }
  const double seconds = watch.took().clock / steps;
  if (writes) store_->flush();
  return seconds;
}

void ReuseBench::decode(ReuseResult& result) {
  const std::int64_t tokens = std::min(result.tokens, kReuseHandedOver);
  result.steps = std::clamp(static_cast<int>(kRoundSeconds / decode_step(tokens, 4, false)), 16, 1000);
  std::vector<double> quiet, writing;
  for (int round = 0; round < 2 * budget_.rounds; ++round) {
    progress_(fmt::format("decoding while rows are written: round {}", round + 1));
    for (const bool writes : {round % 2 == 0, round % 2 != 0})
      (writes ? writing : quiet).push_back(decode_step(tokens, result.steps, writes));
  }
  result.quiet_step = spread_of(quiet);
  result.writing_step = spread_of(writing);
}

ReuseResult ReuseBench::run(std::int64_t tokens) {
  if (tokens + 1 > model_.context() || tokens < 2 * std::max(1, model_.plan().window))
    throw Error(ErrorCode::kUsage,
                fmt::format("reuse of {} tokens cannot be timed: this model takes {} to {}", tokens,
                            2 * std::max(1, model_.plan().window), model_.context() - 1));
  ReuseResult result;
  result.tokens = tokens;
  result.chunk = model_.options().batch_tokens;
  result.sampled_chunks = budget_.sampled_chunks;
  const auto wants = [&](const char* part) {
    return std::find(budget_.parts.begin(), budget_.parts.end(), part) != budget_.parts.end();
  };
  const bool has_decoder =
      model_.plan().first_decoder_layer() < static_cast<int>(model_.plan().layers.size());
  if (has_decoder && wants("prompt")) prefill(result);
  if (wants("snapshot")) ways(result, ReplayWay::kAuto);
  if (wants("replay")) ways(result, ReplayWay::kExact);
  if (wants("decode")) decode(result);
  return result;
}

}  // namespace seekline
