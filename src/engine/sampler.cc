#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "seekline/error.h"

namespace seekline {
namespace {

[[noreturn]] void refuse(const char* name, double value, const char* expected) {
  throw Error(ErrorCode::kUsage, fmt::format("{} is {}, but must be {}", name, value, expected));
}

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// Best first; equal logits: the lower id.
bool better(const std::pair<float, std::int32_t>& a, const std::pair<float, std::int32_t>& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

double log_sum_exp(std::span<const float> logits) {
  const float max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - max));
  return max + std::log(sum);
}

std::vector<TokenLogprob> best_logprobs(std::span<const float> logits, double log_sum, int count) {
  std::vector<std::pair<float, std::int32_t>> all(logits.size());
  for (std::size_t i = 0; i < logits.size(); ++i) all[i] = {logits[i], static_cast<std::int32_t>(i)};
  const auto n = std::min(all.size(), static_cast<std::size_t>(count));
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(n), all.end(), better);
  std::vector<TokenLogprob> top(n);
  for (std::size_t i = 0; i < n; ++i) top[i] = {all[i].second, static_cast<float>(all[i].first - log_sum)};
  return top;
}

}  // namespace

double uniform_at(std::uint64_t seed, std::uint64_t step) {
  const std::uint64_t word = mix(mix(seed + 0x9e3779b97f4a7c15u) + (step + 1) * 0x9e3779b97f4a7c15u);
  return static_cast<double>(word >> 11) * 0x1.0p-53;
}

void check_sampling_options(const SamplingOptions& o) {
  if (!(o.temperature >= 0 && o.temperature <= 100))
    refuse("temperature", o.temperature, "between 0 and 100");
  if (o.top_k < 0) refuse("top_k", o.top_k, "0 (off) or more");
  if (!(o.top_p > 0 && o.top_p <= 1)) refuse("top_p", o.top_p, "above 0 and at most 1");
  if (!(o.min_p >= 0 && o.min_p < 1)) refuse("min_p", o.min_p, "at least 0 and below 1");
  if (!(o.repetition_penalty > 0 && o.repetition_penalty <= 100))
    refuse("repetition_penalty", o.repetition_penalty, "above 0 and at most 100");
  if (!(std::fabs(o.presence_penalty) <= 100))
    refuse("presence_penalty", o.presence_penalty, "between -100 and 100");
  if (!(std::fabs(o.frequency_penalty) <= 100))
    refuse("frequency_penalty", o.frequency_penalty, "between -100 and 100");
  for (const auto& [token, bias] : o.logit_bias) {
    if (token < 0) refuse("a token of logit_bias", token, "0 or more");
    if (!(std::fabs(bias) <= 100)) refuse("a value of logit_bias", bias, "between -100 and 100");
  }
}

Sampler::Sampler(SamplingOptions options) : options_(std::move(options)) { check_sampling_options(options_); }

void Sampler::adjust(std::span<const std::int32_t> prompt, std::span<const std::int32_t> generated) {
  const auto index = [](std::int32_t token) { return static_cast<std::size_t>(token); };
  for (const auto& [token, bias] : options_.logit_bias)
    if (index(token) < logits_.size()) logits_[index(token)] += bias;
  const bool counts = options_.presence_penalty != 0 || options_.frequency_penalty != 0;
  if (options_.repetition_penalty == 1.0f && !counts) return;
  seen_.assign(logits_.size(), 0);
  if (options_.repetition_penalty != 1.0f) {
    for (const auto& tokens : {prompt, generated})
      for (const std::int32_t token : tokens) seen_[index(token)] = 1;
    for (std::size_t i = 0; i < logits_.size(); ++i)
      if (seen_[i])
        logits_[i] *= logits_[i] > 0 ? 1.0f / options_.repetition_penalty : options_.repetition_penalty;
  }
  if (!counts) return;
  seen_.assign(logits_.size(), 0);
  for (const std::int32_t token : generated) ++seen_[index(token)];
  for (std::size_t i = 0; i < logits_.size(); ++i)
    if (seen_[i])
      logits_[i] -= options_.presence_penalty + options_.frequency_penalty * static_cast<float>(seen_[i]);
}

// Sorts the best candidates further: at least `count` of them are in order afterwards.
void Sampler::sort_best(std::size_t count) {
  while (sorted_ < std::min(count, order_.size())) {
    const std::size_t end = std::min(order_.size(), std::max<std::size_t>(64, sorted_ * 8));
    const auto begin = order_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    const auto middle = order_.begin() + static_cast<std::ptrdiff_t>(end);
    if (end < order_.size()) std::nth_element(begin, middle, order_.end(), better);
    std::sort(begin, middle, better);
    sorted_ = end;
  }
}

// Best first, but sorted only as far as the draw needs: nearly all mass lies in few tokens of a large
// vocabulary.
std::int32_t Sampler::draw(std::uint64_t step) {
  order_.resize(logits_.size());
  for (std::size_t i = 0; i < logits_.size(); ++i)
    order_[i] = {logits_[i] / options_.temperature, static_cast<std::int32_t>(i)};
  sorted_ = 0;
  sort_best(1);
  const double best = order_[0].first;
  const auto weight = [&](std::size_t i) {
    sort_best(i + 1);
    return std::exp(static_cast<double>(order_[i].first) - best);
  };
  std::size_t kept = order_.size();
  double total = 0;
  if (options_.top_k > 0 && static_cast<std::size_t>(options_.top_k) < kept) {
    kept = static_cast<std::size_t>(options_.top_k);
    for (std::size_t i = 0; i < kept; ++i) total += weight(i);
  } else {
    for (const float logit : logits_)
      total += std::exp(static_cast<double>(logit / options_.temperature) - best);
  }
  if (options_.top_p < 1) {
    const double wanted = static_cast<double>(options_.top_p) * total;
    std::size_t n = 0;
    for (total = 0; n < kept && total < wanted; ++n) total += weight(n);
    kept = std::max<std::size_t>(1, n);
  }
  if (options_.min_p > 0) {
    std::size_t n = 1;
    for (total = weight(0); n < kept && weight(n) >= static_cast<double>(options_.min_p); ++n)
      total += weight(n);
    kept = n;
  }
  double left = uniform_at(options_.seed, step) * total;
  for (std::size_t i = 0; i < kept; ++i) {
    left -= weight(i);
    if (left < 0) return order_[i].second;
  }
  return order_[kept - 1].second;
}

Choice Sampler::choose(std::span<const float> logits, std::span<const std::int32_t> prompt,
                       std::span<const std::int32_t> generated, int top_logprobs,
                       std::span<const std::uint8_t> allowed) {
  logits_.assign(logits.begin(), logits.end());
  adjust(prompt, generated);
  if (!allowed.empty())
    for (std::size_t i = 0; i < logits_.size(); ++i)
      if (!allowed[i]) logits_[i] = -std::numeric_limits<float>::infinity();
  Choice choice;
  if (options_.temperature == 0) {
    choice.token =
        static_cast<std::int32_t>(std::max_element(logits_.begin(), logits_.end()) - logits_.begin());
  } else {
    choice.token = draw(generated.size());
  }
  if (top_logprobs < 0) return choice;
  const double log_sum = log_sum_exp(logits);
  choice.logprob = static_cast<float>(logits[static_cast<std::size_t>(choice.token)] - log_sum);
  if (top_logprobs > 0) choice.top = best_logprobs(logits, log_sum, top_logprobs);
  return choice;
}

}  // namespace seekline
