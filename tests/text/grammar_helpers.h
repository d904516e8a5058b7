// What the tests of constrained decoding share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"

namespace seekline::golden {

using Json = nlohmann::ordered_json;

/// One token for each byte, and 256 as the end.
inline std::shared_ptr<const TokenVocabulary> byte_vocabulary() {
  static const auto vocabulary = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    texts.emplace_back();
    return std::make_shared<const TokenVocabulary>(texts, std::vector<TokenId>{256});
  }();
  return vocabulary;
}

/// How the grammar of `schema` reads `text`: "whole", "part" (it may go on, but not end), "no".
inline std::string reads(const Grammar& grammar, const std::string& text) {
  GrammarState state(grammar, byte_vocabulary());
  if (!state.accept_text(text)) return "no";
  return state.can_end() ? "whole" : "part";
}

inline std::string reads(const std::string& schema, const std::string& text) {
  return reads(Grammar::from_json_schema(Json::parse(schema)), text);
}

}  // namespace seekline::golden
