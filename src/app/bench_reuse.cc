#include "app/bench_reuse.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "app/commands.h"
#include "engine/executor.h"
#include "engine/formula_rows.h"
#include "engine/prefix_cache.h"
#include "persist/maintenance.h"
#include "persist/stored_rows.h"

namespace seekline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::vector<std::int32_t> formula_tokens(std::int64_t count, std::int64_t vocab) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = formula_token(i, vocab);
  return tokens;
}

}  // namespace

ReuseBench::ReuseBench(Model& model, const ReuseBudget& budget,
                       std::function<void(const std::string&)> progress)
    : model_(model), budget_(budget), progress_(std::move(progress)) {
  std::string name = (std::filesystem::temp_directory_path() / "seekline-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr)
    throw Error(ErrorCode::kIo,
                fmt::format("no folder can be made in {}", std::filesystem::temp_directory_path().string()));
  folder_ = name;
  threads_ = std::make_unique<ThreadPool>(model.executor().threads());
  logits_.resize(static_cast<std::size_t>(model.vocab_size()));
}

ReuseBench::~ReuseBench() {
  store_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

// Under a fingerprint of its own, so that nothing of before is found.
void ReuseBench::open_store() {
  store_.reset();
  ++fingerprint_.bytes[0];
  reopen_store();
}

void ReuseBench::reopen_store() {
  PrefixStoreOptions options;
  options.folder = folder_;
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
  ::fdatasync(file);
  ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
  ::close(file);
}

// Computes up to `most` tokens of what the timeline lacks; its last token answers.
double ReuseBench::compute(Timeline& timeline, std::int64_t most) {
  const Clock::time_point start = Clock::now();
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
  return seconds_since(start);
}

// One chunk of a prompt of `tokens` tokens, behind rows by formula.
double ReuseBench::chunk_seconds(DecoderMode mode, std::int64_t chunk, std::int64_t tokens) {
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

// Straight lines between the sampled chunks; the last chunk, where the decoder part runs, is timed by itself.
double ReuseBench::sampled_seconds(DecoderMode mode, std::int64_t tokens) {
  const std::int64_t chunk = model_.options().batch_tokens, chunks = (tokens + chunk - 1) / chunk;
  const std::int64_t samples = std::clamp<std::int64_t>(budget_.sampled_chunks - 1, 2, chunks - 1);
  double sum = chunk_seconds(mode, chunks - 1, tokens), before = 0;
  std::int64_t at = -1;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t here = i * (chunks - 2) / (samples - 1);
    const double seconds = chunk_seconds(mode, here, tokens);
    for (std::int64_t c = at + 1; c <= here; ++c) {
      const double part = here == at ? 1 : static_cast<double>(c - at) / static_cast<double>(here - at);
      sum += at < 0 ? seconds : before + part * (seconds - before);
    }
    before = seconds;
    at = here;
  }
  return sum;
}

void ReuseBench::prefill(ReuseResult& result) {
  const std::int64_t tokens = result.tokens;
  const int layers = static_cast<int>(model_.plan().layers.size());
  const int encoder = model_.plan().first_decoder_layer();
  chunk_seconds(DecoderMode::kExact, 0, tokens);  // warms up
  for (const DecoderMode mode : {DecoderMode::kExact, DecoderMode::kCed}) {
    const auto m = static_cast<std::size_t>(mode);
    const std::int64_t decoder_tokens =
        mode == DecoderMode::kCed ? std::min<std::int64_t>(tokens, model_.plan().window) : tokens;
    result.evaluations[m] = tokens * encoder + decoder_tokens * (layers - encoder);
    if (budget_.sampled_chunks > 0) {
      result.prefill_seconds[m] = sampled_seconds(mode, tokens);
      continue;
    }
    progress_(fmt::format("prompt of {} tokens, {}", with_commas(tokens), mode_name(mode)));
    Timeline timeline(model_.pages(), mode);
    timeline.begin(formula_tokens(tokens, model_.vocab_size()), tokens, ReplayWay::kAuto);
    result.prefill_seconds[m] = compute(timeline);
  }
}

// Rows of all tokens, and rings where the last window begins: what a prompt leaves.
std::unique_ptr<Timeline> ReuseBench::stored_prefix(std::int64_t tokens) {
  auto timeline = std::make_unique<Timeline>(model_.pages(), model_.options().decoder);
  const std::int64_t point = tokens - model_.plan().window;
  fill_with_formula(timeline->cache(), point, model_.vocab_size(), *threads_);
  const SnapshotPart part = timeline->ring_part();
  auto rings = std::make_shared<Snapshot>(take_snapshot(timeline->cache(), part));
  store_->store(timeline->cache(), part);
  store_->flush();
  fill_with_formula(timeline->cache(), tokens, model_.vocab_size(), *threads_);
  store_->store(timeline->cache());
  store_->flush();
  timeline->rows_restored("memory");
  timeline->rings_lost();
  timeline->add_snapshot(std::move(rings));
  return timeline;
}

void ReuseBench::ways(ReuseResult& result) {
  const std::int64_t tokens = result.tokens;
  const std::vector<std::int32_t> prompt = formula_tokens(tokens + 1, model_.vocab_size());
  open_store();
  progress_(fmt::format("storing {} tokens", with_commas(tokens)));
  const std::unique_ptr<Timeline> kept = stored_prefix(tokens);
  result.stored_bytes = store_figures(folder_.string()).live_bytes;
  struct Case {
    const char* name;
    ReplayWay way;
    bool on_disk, cold;
    std::size_t first;  // the case with everything in memory
  };
  static constexpr Case kCases[] = {
      {"snapshot, all in memory", ReplayWay::kAuto, false, false, 0},
      {"snapshot, from the store", ReplayWay::kAuto, true, false, 0},
      {"snapshot, from the store on a cold disk", ReplayWay::kAuto, true, true, 0},
      {"exact replay, all in memory", ReplayWay::kExact, false, false, 3},
      {"exact replay, from the store", ReplayWay::kExact, true, false, 3},
      {"exact replay, from the store on a cold disk", ReplayWay::kExact, true, true, 3},
  };
  std::vector<std::vector<double>> seconds(std::size(kCases));
  result.ways.resize(std::size(kCases));
  for (int round = -1; round < budget_.rounds; ++round) {  // the first warms up
    for (std::size_t i = 0; i < std::size(kCases); ++i) {
      const Case& c = kCases[i];
      if (round < 0 && i > 0) break;
      progress_(fmt::format("going on at {} tokens: {}, round {}", with_commas(tokens), c.name, round + 1));
      if (c.cold) drop_file();
      const Clock::time_point start = Clock::now();
      std::unique_ptr<Timeline> timeline;
      if (c.on_disk) {
        if (!store_) reopen_store();
        PrefixCache prefixes(model_.pages(), model_.options().decoder, rows());
        timeline = prefixes.acquire(prompt, tokens + 1, c.way);
      } else {
        timeline = kept->fork(tokens);
        timeline->begin(prompt, tokens + 1, c.way);
      }
      if (timeline->report().reused_tokens != tokens)
        throw Error(ErrorCode::kInternal,
                    fmt::format("{} of {} tokens came back ({})", timeline->report().reused_tokens, tokens,
                                timeline->report().why_not_more));
      result.ways[i].tokens = timeline->pending();
      compute(*timeline);
      if (round >= 0) seconds[i].push_back(seconds_since(start));
    }
  }
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    result.ways[i].name = kCases[i].name;
    result.ways[i].seconds = spread_of(seconds[i]);
    result.ways[i].of_first = result.ways[i].seconds.median / result.ways[kCases[i].first].seconds.median;
  }
}

// Steps behind a prompt whose last tokens a store, where there is one, has just been handed; it gets every
// new row too. Seconds a step.
double ReuseBench::decode_round(std::int64_t tokens, int steps, bool writes) {
  const std::int64_t vocab = model_.vocab_size();
  Timeline timeline(model_.pages(), model_.options().decoder);
  fill_with_formula(timeline.cache(), tokens, vocab, *threads_);
  timeline.rows_restored("memory");
  timeline.add_snapshot(
      std::make_shared<Snapshot>(take_snapshot(timeline.cache(), SnapshotPart::kAll, tokens)));
  timeline.begin(formula_tokens(tokens + 1, vocab), tokens, ReplayWay::kAuto);
  compute(timeline);
  if (writes) open_store();
  PrefixCache prefixes(model_.pages(), model_.options().decoder, writes ? rows() : nullptr);
  const Clock::time_point start = Clock::now();
  if (writes) store_->store(timeline.cache(), timeline.ring_part());
  for (int step = 0; step < steps; ++step) {
    timeline.push(formula_token(step, vocab));
    compute(timeline);
    prefixes.ran(timeline);
  }
  const double seconds = seconds_since(start) / steps;
  if (writes) store_->flush();
  return seconds;
}

void ReuseBench::decode(ReuseResult& result) {
  const std::int64_t tokens = std::min(result.tokens, kReuseHandedOver);
  result.steps = std::clamp(static_cast<int>(1.0 / decode_round(tokens, 4, false)), 8, 400);
  std::vector<double> quiet, writing;
  for (int round = 0; round < 4 * budget_.rounds; ++round) {
    progress_(fmt::format("decoding while rows are written: round {}", round + 1));
    for (const bool writes : {round % 2 == 0, round % 2 != 0})
      (writes ? writing : quiet).push_back(decode_round(tokens, result.steps, writes));
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
  if (model_.plan().first_decoder_layer() < static_cast<int>(model_.plan().layers.size())) prefill(result);
  ways(result);
  decode(result);
  return result;
}

}  // namespace seekline
