// What an API is to the server: a request becomes a GenerationSpec and a Renderer that words the answer.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api_error.h"
#include "serve/generation.h"
#include "serve/service.h"

namespace seekline::serve {

/// Words one answer, whole or event by event. Used by one thread.
class Renderer {
 public:
  using Outcomes = std::vector<ChoiceOutcome>;
  virtual ~Renderer() = default;

  /// Server-sent events for `event`, appended to `out`; the outcomes include it.
  virtual void render(const GenerationEvent& event, const Outcomes& outcomes, std::string& out) = 0;
  /// After the last choice has ended.
  virtual void finish(const Outcomes& outcomes, std::string& out) = 0;
  /// The stream breaks off.
  virtual void fail(const ApiError& error, std::string& out) = 0;
  /// The whole answer of a request that does not stream.
  virtual ChatJson body(const Outcomes& outcomes) = 0;
};

struct ApiCall {
  GenerationSpec spec;
  std::unique_ptr<Renderer> renderer;
  bool streams = false;
};

/// Which words errors are in.
enum class ApiStyle : std::uint8_t { kOpenAi, kAnthropic };

ApiCall openai_chat_call(const Service& service, const ChatJson& body);
ApiCall openai_completions_call(const Service& service, const ChatJson& body);
ApiCall openai_responses_call(const Service& service, const ChatJson& body);
ApiCall anthropic_messages_call(const Service& service, const ChatJson& body, const std::string& request_id);
/// {"input_tokens": n}
ChatJson anthropic_count_tokens(const Service& service, const ChatJson& body);

// What the APIs share.

/// "prefix" and 24 random letters and digits.
std::string random_id(std::string_view prefix);
std::uint64_t random_seed();
/// Server-sent event; without a name only its data.
void append_sse(std::string& out, const ChatJson& data, std::string_view name = {});

struct TokenCounts {
  std::int64_t prompt = 0, cached = 0, completion = 0, reasoning = 0;
};
/// Prompts count once, whatever the number of choices.
TokenCounts count_tokens(const GenerationSpec& spec, const Renderer::Outcomes& outcomes);

/// What this engine knows beyond the APIs: reuse, cache bytes by store, times (docs/api.md).
ChatJson engine_report(const Service& service, const Renderer::Outcomes& outcomes);
/// Its parts that are known while an answer grows.
ChatJson prompt_report(const ReuseReport& reuse);
ChatJson cache_report(const Service& service, const std::vector<std::int64_t>& store_bytes);

/// The token with its bytes, as OpenAI's logprobs have it.
ChatJson token_json(const Tokenizer& tokenizer, TokenId id, float logprob);
/// A list of records with their top lists.
ChatJson records_json(const Tokenizer& tokenizer, const std::vector<TokenRecord>& records);

/// The failure of a choice that ended with kFailed.
ApiError failure_of(const ChoiceOutcome& outcome);

}  // namespace seekline::serve
