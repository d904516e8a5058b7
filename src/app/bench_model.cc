#include "app/bench_model.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include <fmt/format.h>

#include "app/commands.h"
#include "cache/sequence_cache.h"
#include "engine/executor.h"
#include "engine/formula_rows.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The time that the machine's limits leave no way around.
double least_seconds(double bytes, double bf16_operations, double int8_operations,
                     const MachineRates& rates) {
  double dots = 0;
  if (rates.bf16_ops_s > 0) dots += bf16_operations / rates.bf16_ops_s;
  if (rates.int8_ops_s > 0) dots += int8_operations / rates.int8_ops_s;
  return std::max(bytes / rates.read_bytes_s, dots);
}

MachineRates between(const MachineRates& a, const MachineRates& b) {
  return {(a.read_bytes_s + b.read_bytes_s) / 2, (a.bf16_ops_s + b.bf16_ops_s) / 2,
          (a.int8_ops_s + b.int8_ops_s) / 2};
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values.front(), values[values.size() / 2], values.back()};
}

// Collects the rounds of one case.
class ModelBench::Timing {
 public:
  explicit Timing(ModelBench& bench) : bench_(bench), before_(reading()) {}

  bool more() const {
    return static_cast<int>(rates_.size()) < bench_.budget_.rounds &&
           (rates_.empty() || seconds_since(start_) < bench_.budget_.case_seconds);
  }

  /// A round has just ended: `seconds` for `tokens` tokens.
  void round(double seconds, double tokens) {
    const MachineRates after = reading();
    rates_.push_back(between(before_, after));
    before_ = after;
    seconds_.push_back(seconds);
    tokens_.push_back(tokens);
  }

  /// `profile` sums over all rounds; cache bytes likewise.
  CaseResult finish(const StepProfile& profile, const Reads& reads) const {
    CaseResult result;
    double tokens = 0;
    MachineRates mean{};
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      tokens += tokens_[i];
      result.seconds += seconds_[i];
      mean.read_bytes_s += rates_[i].read_bytes_s * seconds_[i];
      mean.bf16_ops_s += rates_[i].bf16_ops_s * seconds_[i];
      mean.int8_ops_s += rates_[i].int8_ops_s * seconds_[i];
    }
    mean = {mean.read_bytes_s / result.seconds, mean.bf16_ops_s / result.seconds,
            mean.int8_ops_s / result.seconds};
    double bytes = 0, bf16 = 0, int8 = 0;
    for (int p = 0; p < static_cast<int>(StepPart::kCount); ++p) {
      const auto part = static_cast<StepPart>(p);
      const StepProfile::Sum& sum = profile.sum(part);
      PartResult r{part, sum.seconds, sum.weight_bytes, sum.operations, 0};
      const bool scan = part == StepPart::kIndexScan;
      if (part == StepPart::kCacheReads) r.bytes += static_cast<double>(reads.main + reads.window);
      if (scan) r.bytes += static_cast<double>(reads.index_key);
      if (r.seconds == 0 && r.bytes == 0) continue;
      if (r.seconds > 0)
        r.share = least_seconds(r.bytes, scan ? 0 : r.operations, scan ? r.operations : 0, mean) / r.seconds;
      bytes += r.bytes;
      (scan ? int8 : bf16) += r.operations;
      result.parts.push_back(r);
    }
    result.bytes_per_token = bytes / tokens;
    result.operations_per_token = (bf16 + int8) / tokens;
    std::vector<double> speeds, shares;
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      const double part = tokens_[i] / tokens;
      speeds.push_back(tokens_[i] / seconds_[i]);
      shares.push_back(least_seconds(bytes * part, bf16 * part, int8 * part, rates_[i]) / seconds_[i]);
    }
    result.tokens_s = spread_of(speeds);
    result.share = spread_of(shares);
    return result;
  }

 private:
  MachineRates reading() {
    bench_.machine_.push_back(bench_.probe_.measure());
    return bench_.machine_.back();
  }

  ModelBench& bench_;
  const Clock::time_point start_ = Clock::now();
  MachineRates before_;
  std::vector<MachineRates> rates_;
  std::vector<double> seconds_, tokens_;
};

ModelBench::ModelBench(Model& model, MachineProbe& probe, const BenchBudget& budget,
                       std::function<void(const std::string&)> progress)
    : model_(model), probe_(probe), budget_(budget), progress_(std::move(progress)) {}

CaseResult ModelBench::decode(std::int64_t context, int batch) {
  if (context < 1 || context > model_.context())
    throw Error(ErrorCode::kUsage,
                fmt::format("a context of {} tokens cannot be timed: this model takes 1 to {}", context,
                            model_.context()));
  progress_(fmt::format("decode at {} tokens, {} together: filling", with_commas(context), batch));
  const std::int64_t vocab = model_.vocab_size();
  std::vector<std::unique_ptr<SequenceCache>> caches(static_cast<std::size_t>(batch));
  Reads reads;
  const auto fill = [&] {
    std::int64_t held = 0;
    for (auto& cache : caches) {
      cache = std::make_unique<SequenceCache>(model_.pages());
      fill_with_formula(*cache, context - 1, vocab, probe_.pool());
      held += cache->allocated_bytes();
    }
    cache_bytes_ = std::max(cache_bytes_, held);
  };
  const auto collect_reads = [&] {
    for (auto& cache : caches) {
      const Reads r = cache->ledger().reads();
      reads.main += r.main;
      reads.window += r.window;
      reads.index_key += r.index_key;
    }
  };
  fill();
  logits_.resize(static_cast<std::size_t>(batch * vocab));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(batch));
  std::vector<Run> runs(static_cast<std::size_t>(batch));
  static constexpr std::int32_t kFirst = 0;
  const auto step = [&] {
    for (int b = 0; b < batch; ++b) {
      const auto i = static_cast<std::size_t>(b);
      const std::int64_t position = caches[i]->length();
      tokens[i] = formula_token(position + 7919 * (b + 1), vocab);
      runs[i] = {};
      runs[i].cache = caches[i].get();
      runs[i].first_position = position;
      runs[i].tokens = {&tokens[i], 1};
      runs[i].wanted_logits = {&kFirst, 1};
    }
    model_.executor().forward(runs, {logits_.data(), batch, vocab});
  };
  step();
  const Clock::time_point trial = Clock::now();
  step();
  // Every step makes the context longer: by an eighth at most.
  const std::int64_t growth = std::max<std::int64_t>(16, context / 8);
  const int per_round = std::clamp(static_cast<int>(budget_.round_seconds / seconds_since(trial)), 1,
                                   static_cast<int>(std::min<std::int64_t>(growth, 1000)));
  for (auto& cache : caches) cache->ledger().reset();
  StepProfile profile;
  Timing timing(*this);
  for (int round = 1; timing.more(); ++round) {
    progress_(fmt::format("decode at {} tokens, {} together: round {}", with_commas(context), batch, round));
    if (caches.front()->length() + per_round > context + growth) {
      collect_reads();
      fill();
    }
    model_.executor().profile(&profile);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < per_round; ++i) step();
    const double seconds = seconds_since(start);
    model_.executor().profile(nullptr);
    timing.round(seconds, static_cast<double>(per_round) * batch);
  }
  collect_reads();
  CaseResult result = timing.finish(profile, reads);
  result.context = context;
  result.batch = batch;
  return result;
}

CaseResult ModelBench::prefill(std::int64_t count) {
  if (count < 1 || count > model_.context())
    throw Error(ErrorCode::kUsage,
                fmt::format("a prompt of {} tokens cannot be timed: this model takes 1 to {}", count,
                            model_.context()));
  const std::int64_t vocab = model_.vocab_size();
  logits_.resize(static_cast<std::size_t>(vocab));
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) tokens[static_cast<std::size_t>(i)] = formula_token(i, vocab);
  const std::int64_t chunk = model_.options().batch_tokens;
  StepProfile profile;
  const auto prompt = [&](bool timed) {
    SequenceCache cache(model_.pages());
    cache.reserve(count);
    model_.executor().profile(timed ? &profile : nullptr);
    const Clock::time_point start = Clock::now();
    for (std::int64_t done = 0; done < count; done += chunk) {
      const std::int64_t n = std::min(chunk, count - done);
      const auto last = static_cast<std::int32_t>(n - 1);
      Run run;
      run.cache = &cache;
      run.first_position = done;
      run.tokens = std::span<const std::int32_t>(tokens).subspan(static_cast<std::size_t>(done),
                                                                 static_cast<std::size_t>(n));
      if (done + n == count) run.wanted_logits = {&last, 1};
      model_.executor().forward({&run, 1}, {logits_.data(), done + n == count ? 1 : 0, vocab});
    }
    const double seconds = seconds_since(start);
    model_.executor().profile(nullptr);
    cache_bytes_ = std::max(cache_bytes_, cache.allocated_bytes());
    return seconds;
  };
  progress_(fmt::format("prefill of {} tokens: warming up", with_commas(count)));
  if (count <= 256) prompt(false);  // longer ones are their own warm-up
  Timing timing(*this);
  for (int round = 1; timing.more(); ++round) {
    progress_(fmt::format("prefill of {} tokens: round {}", with_commas(count), round));
    timing.round(prompt(true), static_cast<double>(count));
  }
  // Rows are read by many tokens each, out of the processor's caches: only their operations count.
  CaseResult result = timing.finish(profile, {});
  result.tokens = count;
  return result;
}

}  // namespace seekline
