// Random schemas, and random texts written under their masks: every one ends, parses and validates.
#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

#include "golden_tokenizers.h"
#include "grammar_helpers.h"
#include "json_schema_validator.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using golden::Json;

class RandomSchemas {
 public:
  explicit RandomSchemas(std::uint32_t seed) : random_(seed) {}

  /// A document with three definitions that may refer to each other.
  Json document() {
    Json root = schema(3);
    for (const char* name : {"a", "b", "c"}) root["$defs"][name] = schema(2);
    if (root.contains("$ref") || below(4) > 0) return root;
    root["title"] = "t";
    return root;
  }

 private:
  std::uint32_t below(std::uint32_t n) {
    return std::uniform_int_distribution<std::uint32_t>(0, n - 1)(random_);
  }

  std::string pick(const std::vector<std::string>& from) {
    return from[below(static_cast<std::uint32_t>(from.size()))];
  }

  std::string name() {
    static const std::vector<std::string> names{"a", "ab",        "abc",  "é",  "éa", "x\"y",
                                                "",  "two words", "中文", "\n", "b",  "B"};
    return pick(names);
  }

  Json literal() {
    static const std::vector<std::string> texts{"0",
                                                "1",
                                                "12",
                                                "-1.5",
                                                "1e3",
                                                "true",
                                                "null",
                                                R"("")",
                                                R"("a")",
                                                R"("ab")",
                                                R"("中\n\"")",
                                                "[]",
                                                R"({"a":[1,{"b":null}]})",
                                                R"(["x",2])"};
    return Json::parse(pick(texts));
  }

  Json schema(int depth) {
    Json schema = Json::object();
    switch (below(depth > 0 ? 12 : 6)) {
      case 0:
        schema["type"] = pick({"string", "integer", "number", "boolean", "null"});
        break;
      case 1:
        schema["type"] = Json::array({"null", pick({"string", "number", "integer"})});
        break;
      case 2:
        for (std::uint32_t i = 0; i <= below(5); ++i) schema["enum"].push_back(literal());
        break;
      case 3:
        schema["const"] = literal();
        break;
      case 4:
        schema["$ref"] = "#/$defs/" + pick({"a", "b", "c"});
        break;
      case 5:
        break;  // anything
      case 6:
        for (std::uint32_t i = 0; i <= below(3); ++i) schema["anyOf"].push_back(this->schema(depth - 1));
        break;
      case 7:
      case 8:
        schema["type"] = "array";
        schema["items"] = below(8) == 0 ? Json(below(2) == 0) : this->schema(depth - 1);
        break;
      default:
        fill_object(schema, depth);
    }
    return schema;
  }

  void fill_object(Json& schema, int depth) {
    schema["type"] = below(3) > 0 ? Json("object") : Json::array({"object", "null", "array"});
    for (std::uint32_t i = below(5); i > 0; --i)
      schema["properties"][name()] = below(10) == 0 ? Json(below(2) == 0) : this->schema(depth - 1);
    Json required = Json::array();
    for (std::uint32_t i = below(4); i > 0; --i) required.push_back(name());
    if (schema.contains("properties"))
      for (const auto& [key, value] : schema["properties"].items())
        if (below(3) == 0) required.push_back(key);
    if (below(4) > 0) schema["required"] = required;
    switch (below(4)) {
      case 0:
        schema["additionalProperties"] = this->schema(depth - 1);
        break;
      case 1:
        schema["additionalProperties"] = below(2) == 0;
        break;
      default:
        break;
    }
  }

  std::mt19937 random_;
};

// Nothing where no value satisfies the schema, which is well-formed in any case.
std::optional<Grammar> grammar_of(const Json& schema) {
  try {
    return Grammar::from_json_schema(schema);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return std::nullopt;
  }
}

// Chooses among the allowed tokens, by preference one of a text that is short, as models that end do.
TokenId choose(const std::vector<std::uint8_t>& allowed, const TokenVocabulary& vocabulary,
               std::mt19937& random) {
  static std::vector<TokenId> all, brief;
  all.clear();
  brief.clear();
  for (std::size_t id = 0; id < allowed.size(); ++id) {
    if (!allowed[id]) continue;
    all.push_back(static_cast<TokenId>(id));
    const std::string_view text = vocabulary.text(static_cast<TokenId>(id));
    if (text.find_first_of("\"}],:{[") != std::string_view::npos) brief.push_back(static_cast<TokenId>(id));
  }
  if (all.empty()) return -1;
  const auto& from = !brief.empty() && random() % 3 != 0 ? brief : all;
  return from[random() % from.size()];
}

struct Walk {
  std::string text;
  std::int64_t tokens = 0;
  bool ok = true;
};

Walk random_walk(const Grammar& grammar, const std::shared_ptr<const TokenVocabulary>& vocabulary,
                 std::int64_t budget, std::mt19937& random, bool compare_all) {
  GrammarState state(grammar, vocabulary);
  Walk walk;
  budget += static_cast<std::int64_t>(state.completion_tokens().size());
  std::vector<std::uint8_t> allowed(vocabulary->size());
  const auto take = [&](TokenId token) {
    walk.text += vocabulary->text(token);
    ++walk.tokens;
  };
  while (!state.finished()) {
    state.mask(allowed);
    for (std::size_t id = 0; compare_all && id < allowed.size(); ++id) {
      const auto token = static_cast<TokenId>(id);
      const bool possible = !vocabulary->text(token).empty() || vocabulary->is_end(token);
      walk.ok = walk.ok && (allowed[id] == 1) == (possible && state.fits(token, 1 << 30));
    }
    const TokenId token = choose(allowed, *vocabulary, random);
    if (token < 0) return {walk.text, walk.tokens, false};
    if (vocabulary->is_end(token)) return walk;
    const auto rest = state.advance(token, budget - walk.tokens);
    if (!rest) take(token);
    for (const TokenId last : rest.value_or(std::vector<TokenId>{})) take(last);
  }
  walk.ok = walk.ok && walk.tokens <= budget;
  return walk;
}

void check_walks(const Tokenizer& tokenizer, std::vector<TokenId> end_tokens, int schemas, int walks,
                 bool compare_all) {
  const auto vocabulary = TokenVocabulary::of(tokenizer, end_tokens);
  RandomSchemas source(7);
  std::mt19937 random(11);
  int written = 0;
  for (int i = 0; i < schemas; ++i) {
    const Json schema = source.document();
    const std::optional<Grammar> grammar = grammar_of(schema);
    if (!grammar) continue;
    const golden::JsonSchemaValidator validator(schema);
    for (int k = 0; k < walks; ++k) {
      const Walk walk =
          random_walk(*grammar, vocabulary, std::int64_t{1} << (random() % 8), random, compare_all);
      ASSERT_TRUE(walk.ok) << schema << "\n" << walk.text;
      const Json value = Json::parse(walk.text, nullptr, false);
      ASSERT_FALSE(value.is_discarded()) << schema << "\n" << walk.text;
      ASSERT_TRUE(validator.valid(value)) << schema << "\n" << walk.text;
      ++written;
    }
  }
  EXPECT_GT(written, schemas * walks / 2);
}

TEST(GrammarRandom, TextsOfTheTinyVocabularyValidate) {
  check_walks(golden::tiny_tokenizer(), {1}, 400, 4, false);
}

TEST(GrammarRandom, MasksHoldExactlyTheTokensThatCanBeTaken) {
  check_walks(golden::tiny_tokenizer(), {1}, 60, 2, true);
}

TEST(GrammarRandom, TextsOfTheDeepSeekVocabularyValidate) {
  check_walks(golden::v4_tokenizer(), {1}, 30, 1, false);
}

TEST(GrammarRandom, TextsOfTheSmolVocabularyValidate) {
  check_walks(golden::smollm2_tokenizer(), {0, 2}, 40, 1, false);
}

TEST(GrammarRandom, AnyObjectOfEveryVocabularyParses) {
  std::mt19937 random(5);
  for (const Tokenizer* tokenizer : {&golden::tiny_tokenizer(), &golden::v4_tokenizer()}) {
    const auto vocabulary = TokenVocabulary::of(*tokenizer, std::vector<TokenId>{1});
    for (int i = 0; i < 6; ++i) {
      const Walk walk = random_walk(Grammar::json_object(), vocabulary, 200, random, false);
      ASSERT_TRUE(walk.ok) << walk.text;
      EXPECT_TRUE(Json::parse(walk.text, nullptr, false).is_object()) << walk.text;
    }
  }
}

}  // namespace
}  // namespace seekline
