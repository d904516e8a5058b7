#include "serve/api.h"

#include <algorithm>
#include <random>

namespace seekline::serve {
namespace {

std::mt19937_64& random_source() {
  thread_local std::mt19937_64 source{(static_cast<std::uint64_t>(std::random_device{}()) << 32) ^
                                      std::random_device{}()};
  return source;
}

}  // namespace

std::string random_id(std::string_view prefix) {
  static constexpr std::string_view kSymbols =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  std::string id(prefix);
  for (int i = 0; i < 24; ++i) id += kSymbols[random_source()() % kSymbols.size()];
  return id;
}

std::uint64_t random_seed() { return random_source()(); }

void append_sse(std::string& out, const ChatJson& data, std::string_view name) {
  if (!name.empty()) out.append("event: ").append(name).append("\n");
  out.append("data: ").append(to_text(data)).append("\n\n");
}

TokenCounts count_tokens(const GenerationSpec& spec, const Renderer::Outcomes& outcomes) {
  TokenCounts counts;
  for (const auto& prompt : spec.prompts) counts.prompt += static_cast<std::int64_t>(prompt.size());
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    counts.completion += outcomes[i].completion_tokens;
    counts.reasoning += outcomes[i].reasoning_tokens;
    if (i % static_cast<std::size_t>(spec.n) == 0) counts.cached += outcomes[i].prefix.reused_tokens;
  }
  return counts;
}

ChatJson prompt_report(const ReuseReport& reuse) {
  return {{"all", reuse.prompt_tokens},
          {"reused", reuse.reused_tokens},
          {"replayed", reuse.replayed_tokens},
          {"computed", reuse.prompt_tokens - reuse.reused_tokens},
          {"from", reuse.from},
          {"windows", reuse.windows},
          {"approximate", reuse.approximate},
          {"why_not_more", reuse.why_not_more},
          {"encoder_evaluations", reuse.encoder_evaluations},
          {"decoder_evaluations", reuse.decoder_evaluations}};
}

ChatJson cache_report(const Service& service, const std::vector<std::int64_t>& store_bytes) {
  ChatJson stores = ChatJson::array();
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < store_bytes.size(); ++i) {
    stores.push_back({{"store", service.model().plan().stores[i].name}, {"bytes", store_bytes[i]}});
    sum += store_bytes[i];
  }
  return {{"bytes", sum}, {"stores", std::move(stores)}};
}

namespace {

ChatJson choice_report(const Service& service, const SequenceSummary& s) {
  const auto rate = [](std::int64_t tokens, double seconds) {
    return seconds > 0 && tokens > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  return {
      {"prompt_tokens", prompt_report(s.reuse)},
      {"seconds", {{"queue", s.queue_seconds}, {"prompt", s.prompt_seconds}, {"answer", s.decode_seconds}}},
      {"tokens_per_second",
       {{"prompt", rate(s.reuse.computed_tokens, s.prompt_seconds)},
        {"answer", rate(s.generated_tokens - 1, s.decode_seconds)}}},
      {"preemptions", s.preemptions},
      {"cache", cache_report(service, s.store_bytes)}};
}

}  // namespace

ChatJson engine_report(const Service& service, const Renderer::Outcomes& outcomes) {
  ChatJson list = ChatJson::array();
  for (const ChoiceOutcome& outcome : outcomes) list.push_back(choice_report(service, outcome.summary));
  return list.size() == 1 ? list[0] : ChatJson{{"choices", std::move(list)}};
}

ChatJson token_json(const Tokenizer& tokenizer, TokenId id, float logprob) {
  const std::string_view raw = tokenizer.token_bytes(id);
  ChatJson bytes = ChatJson::array();
  for (const char c : raw) bytes.push_back(static_cast<unsigned char>(c));
  return {{"token", tokenizer.decode_text({&id, 1})}, {"logprob", logprob}, {"bytes", std::move(bytes)}};
}

ChatJson records_json(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records) {
  ChatJson list = ChatJson::array();
  for (const TokenRecord& record : records) {
    ChatJson one = token_json(tokenizer, record.choice.token, record.choice.logprob);
    one["top_logprobs"] = ChatJson::array();
    for (const TokenLogprob& top : record.choice.top)
      one["top_logprobs"].push_back(token_json(tokenizer, top.token, top.logprob));
    list.push_back(std::move(one));
  }
  return list;
}

ApiError failure_of(const ChoiceOutcome& outcome) {
  constexpr int kRetrySeconds = 5;
  if (outcome.shutdown) return {503, outcome.error, "shutting_down", {}, kRetrySeconds};
  if (outcome.queue_timed_out) return {503, outcome.error, "queue_timeout", {}, kRetrySeconds};
  if (outcome.timed_out) return {503, outcome.error, "request_timeout", {}, kRetrySeconds};
  return {500, outcome.error, "internal_error"};
}

}  // namespace seekline::serve
