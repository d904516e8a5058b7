#include "serve/openai_fields.h"

#include <charconv>

namespace seekline::serve {
namespace {

constexpr std::size_t kMaxStops = 16, kMaxStopBytes = 1024, kMaxBiases = 1024;

void read_bias(const Field& bias, SamplingOptions& sampling) {
  if (!bias.present()) return;
  bias.object();
  if (bias.size() > kMaxBiases) bias.refuse("has more than 1024 entries");
  for (const auto& [key, value] : bias.json().items()) {
    std::int32_t token = -1;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size() || token < 0)
      bias.refuse("has a key that is not a token id");
    sampling.logit_bias.emplace_back(token, static_cast<float>(bias[key].number(-100, 100)));
  }
}

}  // namespace

void read_sampling(const Field& body, SamplingOptions& s) {
  s.temperature = static_cast<float>(body["temperature"].number_or(1.0, 0, 2));
  const double top_p = body["top_p"].number_or(1.0, 0, 1);
  s.top_p = static_cast<float>(top_p == 0 ? 1e-6 : top_p);
  s.top_k = static_cast<int>(body["top_k"].integer_or(0, -1, 1 << 24));
  if (s.top_k < 0) s.top_k = 0;
  s.min_p = static_cast<float>(body["min_p"].number_or(0, 0, 0.999));
  s.presence_penalty = static_cast<float>(body["presence_penalty"].number_or(0, -2, 2));
  s.frequency_penalty = static_cast<float>(body["frequency_penalty"].number_or(0, -2, 2));
  s.repetition_penalty = static_cast<float>(body["repetition_penalty"].number_or(1, 0.01, 100));
  const Field seed = body["seed"];
  s.seed = seed.present() ? static_cast<std::uint64_t>(seed.integer(-(1LL << 53), 1LL << 53)) : random_seed();
  read_bias(body["logit_bias"], s);
}

bool read_include_usage(const Field& body) {
  const Field options = body["stream_options"];
  return options.present() && options.object()["include_usage"].flag(false);
}

std::vector<std::string> read_stop(const Field& stop) {
  std::vector<std::string> list;
  if (!stop.present()) return list;
  if (stop.is_text()) {
    list.push_back(stop.text());
  } else {
    stop.array("a string or an array of strings");
    if (stop.size() > kMaxStops) stop.refuse("has more than 16 strings");
    for (std::size_t i = 0; i < stop.size(); ++i) list.push_back(stop.at(i).text());
  }
  for (const std::string& one : list)
    if (one.size() > kMaxStopBytes) stop.refuse("has a string of more than 1024 bytes");
  return list;
}

const char* openai_finish(Finish finish) {
  switch (finish) {
    case Finish::kLength:
      return "length";
    case Finish::kCalls:
      return "tool_calls";
    case Finish::kStop:
    case Finish::kStopString:
    case Finish::kFailed:
      return "stop";
  }
  return "stop";
}

ChatJson openai_usage(const TokenCounts& counts) {
  return {{"prompt_tokens", counts.prompt},
          {"completion_tokens", counts.completion},
          {"total_tokens", counts.prompt + counts.completion},
          {"prompt_tokens_details", {{"cached_tokens", counts.cached}}},
          {"completion_tokens_details", {{"reasoning_tokens", counts.reasoning}}},
          {"prompt_cache_hit_tokens", counts.cached},
          {"prompt_cache_miss_tokens", counts.prompt - counts.cached}};
}

}  // namespace seekline::serve
