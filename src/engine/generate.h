// Generates text from a session, token by token.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"
#include "seekline/session.h"

namespace seekline {

enum class FinishReason : std::uint8_t { kEndToken, kStopString, kLength, kContext, kCancelled };
std::string_view finish_reason_name(FinishReason reason);

struct GenerateOptions {
  SamplingOptions sampling;
  std::int64_t max_tokens = 0;  ///< 0: until the context is full
  std::vector<std::string> stop;
  std::vector<std::int32_t> end_tokens;  ///< end the text and are not part of it
  int top_logprobs = 0;
};

struct Generated {
  std::vector<std::int32_t> tokens;  ///< the end token included where one was chosen
  std::vector<Choice> choices;       ///< one a token
  std::string text;                  ///< without special tokens and without the stop string
  FinishReason reason = FinishReason::kLength;
};

/// Continues the session's tokens, which must not be empty. `on_text` gets the text as it becomes certain and
/// may return false to end. The last token chosen is not computed into the session.
Generated generate(Session& session, const GenerateOptions& options,
                   const std::function<bool(std::string_view)>& on_text);

}  // namespace seekline
