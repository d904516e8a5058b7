#include "engine/generate.h"

#include <algorithm>

#include "core/check.h"
#include "engine/stop_strings.h"
#include "text/tokenizer.h"

namespace seekline {

std::string_view finish_reason_name(FinishReason reason) {
  switch (reason) {
    case FinishReason::kEndToken:
      return "end of text";
    case FinishReason::kStopString:
      return "stop string";
    case FinishReason::kLength:
      return "token limit";
    case FinishReason::kContext:
      return "context full";
    case FinishReason::kCancelled:
      return "cancelled";
  }
  return "";
}

Generated generate(Session& session, const GenerateOptions& options,
                   const std::function<bool(std::string_view)>& on_text) {
  SEEKLINE_CHECK(session.length() > 0, "generation needs at least one token to continue");
  Sampler sampler(options.sampling);
  StreamDecoder decoder(session.model()->required_tokenizer(), true);
  StopStrings stops(options.stop);
  const std::vector<std::int32_t> prompt(session.tokens().begin(), session.tokens().end());
  Generated out;
  const auto emit = [&](const std::string& text) {
    out.text += text;
    return text.empty() || !on_text || on_text(text);
  };
  for (;;) {
    out.choices.push_back(sampler.choose(session.logits(), prompt, out.tokens, options.top_logprobs));
    const std::int32_t token = out.choices.back().token;
    out.tokens.push_back(token);
    if (std::find(options.end_tokens.begin(), options.end_tokens.end(), token) != options.end_tokens.end()) {
      out.reason = FinishReason::kEndToken;
      break;
    }
    const bool wanted = emit(stops.push(decoder.push(token)));
    if (stops.matched()) {
      out.reason = FinishReason::kStopString;
      return out;
    }
    if (!wanted) {
      out.reason = FinishReason::kCancelled;
      return out;
    }
    if (options.max_tokens > 0 && static_cast<std::int64_t>(out.tokens.size()) >= options.max_tokens) break;
    if (session.length() + 1 > session.model()->context()) {
      out.reason = FinishReason::kContext;
      break;
    }
    session.extend(token);
  }
  std::string rest = stops.push(decoder.flush());
  rest += stops.flush();
  emit(rest);
  return out;
}

}  // namespace seekline
