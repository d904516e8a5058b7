#include "seekline/session.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "cache/sequence_cache.h"
#include "checkpoint/scale_check.h"
#include "engine/executor.h"

namespace seekline {
namespace {

// Broken weights show here first; then the slow search for what is broken is worth its time.
void check_finite(std::span<const float> logits, const Model& model) {
  if (std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) return;
  std::vector<std::string> problems = find_bad_scales(model.checkpoint());
  if (problems.empty()) problems.push_back("the model's logits are not finite, though every block scale is a number");
  throw Error(ErrorCode::kBadFile, model.checkpoint().folder().string(), std::move(problems));
}

}  // namespace

Session::Session(std::shared_ptr<Model> model)
    : model_(std::move(model)), cache_(std::make_unique<SequenceCache>(model_->pages())) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

std::int64_t Session::length() const { return cache_->length(); }
std::span<const std::int32_t> Session::tokens() const { return cache_->tokens(); }
std::int64_t Session::cache_bytes() const { return cache_->allocated_bytes(); }

bool Session::append(std::span<const std::int32_t> tokens, const std::function<bool(std::int64_t)>& progress) {
  const std::int64_t count = static_cast<std::int64_t>(tokens.size());
  if (length() + count > model_->context())
    throw Error(ErrorCode::kLimit, fmt::format("{} tokens do not fit: {} are there and the context holds {}", count,
                                               length(), model_->context()));
  for (const std::int32_t token : tokens)
    if (token < 0 || token >= model_->vocab_size())
      throw Error(ErrorCode::kUsage,
                  fmt::format("token {} is not in the vocabulary of {} tokens", token, model_->vocab_size()));
  cache_->reserve(length() + count);
  for (std::int64_t done = 0; done < count;) {
    const std::int64_t n = std::min(model_->options().batch_tokens, count - done);
    const bool last = done + n == count;
    const std::int32_t wanted = static_cast<std::int32_t>(n - 1);
    Run run;
    run.cache = cache_.get();
    run.first_position = length();
    run.tokens = tokens.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(n));
    if (last) {
      run.wanted_logits = {&wanted, 1};
      logits_.resize(static_cast<std::size_t>(model_->vocab_size()));
    }
    cache_->ledger().reset();
    model_->executor().forward({&run, 1}, {logits_.data(), last ? 1 : 0, model_->vocab_size()});
    if (last) check_finite(logits_, *model_);
    done += n;
    if (progress && !progress(done) && !last) return false;
  }
  return true;
}

}  // namespace seekline
