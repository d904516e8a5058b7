// Any bytes as a JSON Schema: either one sentence, or a grammar from which every random text can be finished
// and parses.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "seekline/error.h"
#include "text/chat_python_json.h"
#include "text/grammar.h"

namespace {

using namespace seekline;

std::shared_ptr<const TokenVocabulary> vocabulary() {
  static const auto bytes = [] {
    std::vector<std::string> texts;
    for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"", "\":", "\",", "\"},", "[[", "]]", "true", "null", "  ", "12"})
      texts.emplace_back(text);
    return std::make_shared<const TokenVocabulary>(texts, std::vector<TokenId>{});
  }();
  return bytes;
}

// What the schema's own bytes choose.
void walk(const Grammar& grammar, const std::string& choices) {
  GrammarState state(grammar, vocabulary());
  std::string text;
  std::vector<std::uint8_t> allowed(vocabulary()->size());
  for (const char choice : choices.substr(0, 64)) {
    if (state.finished()) break;
    state.mask(allowed);
    std::vector<TokenId> tokens;
    for (std::size_t id = 0; id < allowed.size(); ++id)
      if (allowed[id]) tokens.push_back(static_cast<TokenId>(id));
    if (tokens.empty()) std::abort();  // a dead end
    const TokenId token = tokens[static_cast<unsigned char>(choice) % tokens.size()];
    if (!state.accept(token)) std::abort();
    text += vocabulary()->text(token);
  }
  if (!parse_json(text + state.completion())) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  const auto schema = parse_json(bytes);
  if (!schema) return 0;
  try {
    walk(Grammar::from_json_schema(*schema), bytes);
  } catch (const Error& error) {
    if (std::string(error.what()).find('\n') != std::string::npos) std::abort();  // one sentence
  }
  return 0;
}
