// What all APIs' requests for text become: one shape for the engine to serve.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "seekline/sampling.h"
#include "text/chat.h"
#include "text/grammar.h"

namespace seekline::serve {

struct GenerationSpec {
  std::vector<std::vector<TokenId>> prompts;  ///< each gets `n` choices; choice index = prompt * n + i
  int n = 1;
  bool chat = false;  ///< replies are parsed by the model's chat format
  ReplyStart reply_start = ReplyStart::kContent;
  bool calls_allowed = false;
  bool parallel_calls = true;  ///< false: only the first call of a reply is passed on

  SamplingOptions sampling;                     ///< the seed of choice i is sampling.seed + i
  std::int64_t max_tokens = 0;                  ///< 0: until the context is full
  std::vector<std::string> stop;                ///< ends content (of chats) or text
  int top_logprobs = -1;                        ///< -1: no log probabilities
  std::optional<std::int64_t> reasoning_limit;  ///< reasoning tokens at most; the answer follows then
  std::optional<Grammar> grammar;               ///< what content must look like
  std::vector<TokenId> closing;                 ///< what follows a text of the grammar
};

}  // namespace seekline::serve
