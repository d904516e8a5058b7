// Reads one JSON object a line, answers one a line (README.md).
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "seekline/error.h"
#include "text/chat_python_json.h"
#include "text/grammar.h"

namespace {

using seekline::Grammar;
using seekline::GrammarState;
using seekline::TokenId;
using seekline::TokenVocabulary;
using Json = nlohmann::ordered_json;

constexpr TokenId kEnd = 1;

// Random tokens under the mask; every other time of those with structure in them, so that texts end.
std::string write(const Grammar& grammar, const std::shared_ptr<const TokenVocabulary>& vocabulary,
                  std::uint32_t seed, std::int64_t budget) {
  std::mt19937 random(seed);
  GrammarState state(grammar, vocabulary);
  budget += static_cast<std::int64_t>(state.completion_tokens().size());
  std::vector<std::uint8_t> allowed(vocabulary->size());
  std::string text;
  for (std::int64_t written = 0; !state.finished(); ++written) {
    state.mask(allowed);
    std::vector<TokenId> all, structure;
    for (std::size_t id = 0; id < allowed.size(); ++id) {
      if (allowed[id] == 0) continue;
      all.push_back(static_cast<TokenId>(id));
      if (vocabulary->text(all.back()).find_first_of("\"}],:{[") != std::string_view::npos)
        structure.push_back(all.back());
    }
    const std::vector<TokenId>& from = structure.empty() || random() % 2 == 0 ? all : structure;
    const TokenId token = from.at(random() % from.size());
    if (token == kEnd) break;
    const auto rest = state.advance(token, budget - written);
    if (!rest) text += vocabulary->text(token);
    for (const TokenId last : rest.value_or(std::vector<TokenId>{})) text += vocabulary->text(last);
  }
  return text;
}

Json answer(const Json& question, const std::shared_ptr<const TokenVocabulary>& vocabulary) {
  const Grammar grammar = Grammar::from_json_schema(question.at("schema"));
  if (question.contains("text")) {
    GrammarState state(grammar, vocabulary);
    const bool read = state.accept_text(question["text"].get_ref<const std::string&>());
    return {{"reads", !read ? "no" : state.can_end() ? "whole" : "part"}};
  }
  return {{"text", write(grammar, vocabulary, question.at("seed"), question.at("budget"))}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: grammar_oracle TOKENIZER.json\n", stderr);
    return 2;
  }
  const auto vocabulary = TokenVocabulary::of(seekline::Tokenizer::load(argv[1]), std::vector<TokenId>{kEnd});
  for (std::string line; std::getline(std::cin, line);) {
    Json result;
    try {
      const auto question = seekline::parse_json(line);
      if (!question) throw std::runtime_error("the line is not JSON");
      result = answer(*question, vocabulary);
    } catch (const std::exception& error) {
      result = {{"error", error.what()}};
    }
    std::cout << result.dump() << "\n" << std::flush;
  }
  return 0;
}
