// Constrained decoding with DeepSeek's vocabulary of 129k tokens: the mask of a place seen for the first
// time, of one seen before, and over a whole answer.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "text/grammar.h"

namespace seekline {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer t = Tokenizer::load(std::string(SEEKLINE_SOURCE_DIR) +
                                             "/tests/golden/data/text/deepseek-v4/tokenizer.json");
  return t;
}

std::shared_ptr<const TokenVocabulary> vocabulary() {
  static const auto v = TokenVocabulary::of(tokenizer(), std::vector<TokenId>{1});
  return v;
}

const char* const kSchema = R"({"type": "object", "properties": {
  "name": {"type": "string"}, "age": {"type": "integer"}, "score": {"type": "number"},
  "mood": {"enum": ["happy", "sad", "neither"]}, "tags": {"type": "array", "items": {"type": "string"}},
  "address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
              "required": ["city"]},
  "friends": {"type": "array", "items": {"$ref": "#"}}}, "required": ["name", "age"], "additionalProperties": %s})";

Grammar grammar(int kind) {
  if (kind == 0) return Grammar::json_object();
  std::string schema = kSchema;
  schema.replace(schema.find("%s"), 2, kind == 1 ? "false" : "true");
  return Grammar::from_json_schema(nlohmann::ordered_json::parse(schema));
}

struct Place {
  const char* name;
  const char* text;
};
const Place kPlaces[] = {{"start", ""},
                         {"name of a property", "{\"name\": \"x\", \"age\": 1, "},
                         {"string", "{\"name\": \"Ada"},
                         {"number", "{\"name\": \"x\", \"age\": 12"},
                         {"after a value", "{\"name\": \"x\", \"age\": 1, \"tags\": [\"a\""}};

void first_mask(benchmark::State& state) {
  const Grammar g = grammar(static_cast<int>(state.range(0)));
  const Place& place = kPlaces[state.range(1)];
  std::vector<std::uint8_t> allowed(vocabulary()->size());
  for (auto _ : state) {
    state.PauseTiming();
    GrammarState text(g, vocabulary());
    if (!text.accept_text(place.text)) state.SkipWithError("the grammar does not read the text");
    state.ResumeTiming();
    text.mask(allowed);
  }
  state.SetLabel(place.name);
}
BENCHMARK(first_mask)->ArgsProduct({{0, 1, 2}, {0, 1, 2, 3, 4}})->Unit(benchmark::kMicrosecond);

void same_mask(benchmark::State& state) {
  GrammarState text(grammar(1), vocabulary());
  std::vector<std::uint8_t> allowed(vocabulary()->size());
  text.accept_text("{\"name\": \"Ada");
  for (auto _ : state) text.mask(allowed);
}
BENCHMARK(same_mask)->Unit(benchmark::kMicrosecond);

// A mask and a token at a time, as a server does.
void whole_answer(benchmark::State& state) {
  const std::string answer =
      R"({"name": "Ada Lovelace", "age": 36, "score": 9.75, "mood": "happy", "tags": ["mathematics", "poetry", "engines"],
 "address": {"street": "St James's Square 12", "city": "London"}, "friends": [{"name": "Charles Babbage", "age": 60,
 "mood": "neither", "tags": ["machines"]}, {"name": "Mary Somerville", "age": 71, "address": {"city": "Edinburgh"}}]})";
  const std::vector<TokenId> tokens = tokenizer().encode(answer, false);
  std::vector<std::uint8_t> allowed(vocabulary()->size());
  double worst = 0;
  for (auto _ : state) {
    GrammarState text(grammar(static_cast<int>(state.range(0))), vocabulary());
    for (const TokenId token : tokens) {
      const auto start = std::chrono::steady_clock::now();
      text.mask(allowed);
      if (!text.accept(token)) state.SkipWithError("the grammar does not read the answer");
      worst =
          std::max(worst, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  state.counters["us_per_token"] =
      benchmark::Counter(static_cast<double>(tokens.size()) * 1e-6,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
  state.counters["worst_us"] = worst * 1e6;
}
BENCHMARK(whole_answer)->Arg(0)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

void build_vocabulary(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(TokenVocabulary::of(tokenizer(), std::vector<TokenId>{1}));
}
BENCHMARK(build_vocabulary)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace seekline
