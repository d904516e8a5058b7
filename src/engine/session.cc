#include "seekline/session.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "checkpoint/scale_check.h"
#include "engine/executor.h"
#include "engine/prefix_cache.h"
#include "engine/timeline.h"
#include "engine/verify_reuse.h"

namespace seekline {
namespace {

// Broken weights show here first; then the slow search for what is broken is worth its time.
void check_finite(std::span<const float> logits, const Model& model) {
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) return;
  std::vector<std::string> problems = find_bad_scales(model.checkpoint());
  if (problems.empty())
    problems.push_back("the model's logits are not finite, though every block scale is a number");
  throw Error(ErrorCode::kBadFile, model.checkpoint().folder().string(), std::move(problems));
}

}  // namespace

Session::Session(std::shared_ptr<Model> model, const SessionOptions& options)
    : model_(std::move(model)),
      options_(options),
      timeline_(std::make_unique<Timeline>(model_->pages(), model_->options().decoder)) {
  if (options_.verify_reuse && options_.way == ReplayWay::kBounded)
    throw Error(ErrorCode::kUsage, "bounded replay is approximate, so there is nothing to verify it against");
}
Session::Session(std::shared_ptr<Model> model, const SessionOptions& options,
                 std::unique_ptr<Timeline> timeline)
    : model_(std::move(model)), options_(options), timeline_(std::move(timeline)) {}
Session::~Session() {
  if (timeline_ && options_.prefixes) options_.prefixes->keep(std::move(timeline_));
}
Session::Session(Session&&) noexcept = default;

std::int64_t Session::length() const { return timeline_->size(); }
std::span<const std::int32_t> Session::tokens() const { return timeline_->tokens(); }
std::int64_t Session::cache_bytes() const { return timeline_->bytes(); }
SequenceCache& Session::cache() { return timeline_->cache(); }
const ReuseReport& Session::reuse() const { return timeline_->report(); }

void Session::truncate(std::int64_t tokens) {
  if (tokens < 0 || tokens > length())
    throw Error(ErrorCode::kUsage,
                fmt::format("a session of {} tokens cannot be cut to {}", length(), tokens));
  timeline_->truncate(tokens);
  logits_.clear();
}

Session Session::fork() const {
  Session copy(model_, options_, timeline_->fork(length()));
  copy.logits_ = logits_;
  return copy;
}

void Session::check(std::span<const std::int32_t> tokens) const {
  const std::int64_t count = std::ssize(tokens);
  if (count == 0) throw Error(ErrorCode::kUsage, "a prompt needs at least one token");
  if (count > model_->context())
    throw Error(ErrorCode::kLimit,
                fmt::format("{} tokens do not fit: the context holds {}", count, model_->context()));
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= model_->vocab_size())
      throw Error(ErrorCode::kUsage,
                  fmt::format("token {} is not in the vocabulary of {} tokens", token, model_->vocab_size()));
}

bool Session::append(std::span<const std::int32_t> tokens,
                     const std::function<bool(std::int64_t)>& progress) {
  std::vector<std::int32_t> all(this->tokens().begin(), this->tokens().end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  return prompt(all, progress);
}

bool Session::prompt(std::span<const std::int32_t> tokens,
                     const std::function<bool(std::int64_t)>& progress) {
  check(tokens);
  begin(tokens);
  if (!compute(progress)) {
    timeline_->stop();
    logits_.clear();
    return false;
  }
  if (options_.verify_reuse && timeline_->report().reused_tokens > 0)
    verify_reuse(*model_, *timeline_, logits_);
  return true;
}

void Session::begin(std::span<const std::int32_t> tokens) {
  if (!options_.prefixes) return timeline_->begin(tokens, std::ssize(tokens), options_.way);
  const std::vector<std::int32_t> all(tokens.begin(),
                                      tokens.end());  // they may lie in the timeline that is given away
  options_.prefixes->keep(std::exchange(timeline_, nullptr));
  timeline_ = std::make_unique<Timeline>(model_->pages(), model_->options().decoder);  // where acquire throws
  timeline_ = options_.prefixes->acquire(all, std::ssize(all), options_.way);
}

void Session::extend(std::int32_t token) {
  if (length() + 1 > model_->context())
    throw Error(ErrorCode::kLimit, fmt::format("the context of {} tokens is full", model_->context()));
  check({&token, 1});
  if (logits_.empty())
    throw Error(ErrorCode::kUsage, "a token can only follow a prompt that was computed to its end");
  timeline_->push(token);
  compute(nullptr);
}

bool Session::compute(const std::function<bool(std::int64_t)>& progress) {
  try {
    timeline_->cache().reserve(timeline_->size());
    while (!timeline_->done()) {
      Run run = timeline_->next_run(model_->options().batch_tokens);
      const auto count = static_cast<std::int64_t>(run.tokens.size());
      const bool last = count == timeline_->pending();
      const auto wanted = static_cast<std::int32_t>(count - 1);
      if (last) run.wanted_logits = {&wanted, 1};
      if (last) logits_.resize(static_cast<std::size_t>(model_->vocab_size()));
      run.cache->ledger().reset();
      model_->executor().forward({&run, 1}, {logits_.data(), last ? 1 : 0, model_->vocab_size()});
      timeline_->ran(run);
      if (options_.prefixes) options_.prefixes->ran(*timeline_);
      if (progress && !progress(timeline_->size() - timeline_->pending()) && !last) return false;
    }
  } catch (...) {
    timeline_->stop();
    logits_.clear();
    throw;
  }
  check_finite(logits_, *model_);
  return true;
}

}  // namespace seekline
