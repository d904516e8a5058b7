// A cases.json: token lists to run, in the form of the golden data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace seekline {

struct Case {
  std::string id;
  std::vector<std::int32_t> tokens;
  std::int64_t prompt = 0;  ///< the first tokens are a prompt, the others its answer; 0: not said
  std::vector<std::int64_t>
      hits;  ///< ascending lengths below `prompt`, each computed as a prompt before and reused
};

/// Parses {"cases": [{"id": "...", "tokens": [..], "prompt"?: n, "hits"?: [..], ...}, ..]}; other keys are
/// left alone. Ids must be unique and not empty, tokens not empty and in [0, vocab_size). Throws
/// Error(kBadFile) with everything that is wrong; `subject` names the file.
std::vector<Case> parse_cases(std::string_view json, const std::string& subject, std::int64_t vocab_size);

}  // namespace seekline
