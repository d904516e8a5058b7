// What is wrong with a tokenizer.json ends in one sentence that names it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "golden_tokenizers.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using nlohmann::json;

/// A whole file in few lines: three bytes, two merges, two added tokens.
json small_file() {
  return json::parse(R"({
    "version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 5, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true},
      {"id": 6, "content": "<u>", "single_word": false, "lstrip": false, "rstrip": false, "normalized": true, "special": false}],
    "normalizer": null,
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
      {"type": "Split", "pattern": {"Regex": "\\p{N}"}, "behavior": "Isolated", "invert": false},
      {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
    "post_processor": null,
    "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
              "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"]}})");
}

std::string refusal(const std::string& text, ErrorCode* code = nullptr) {
  try {
    Tokenizer::parse(text, "some/tokenizer.json");
  } catch (const Error& error) {
    if (code != nullptr) *code = error.code();
    return error.what();
  }
  return "accepted";
}

TEST(TokenizerFile, TheSmallFileOfTheseTestsIsGood) {
  const Tokenizer tokenizer = Tokenizer::parse(small_file().dump(), "small");
  EXPECT_EQ(tokenizer.encode("abcab<s>c<u>", true), (std::vector<TokenId>{4, 3, 5, 2, 6}));
  EXPECT_EQ(tokenizer.encode("abcxab", false), (std::vector<TokenId>{4, 3}))
      << "bytes without a token vanish";
  EXPECT_EQ(tokenizer.size(), 7);
}

TEST(TokenizerFile, MergesMayBePairs) {
  json file = small_file();
  file["model"]["merges"] = json::parse(R"([["a", "b"], ["ab", "c"]])");
  EXPECT_EQ(Tokenizer::parse(file.dump(), "pairs").encode("abc", false), std::vector<TokenId>{4});
}

TEST(TokenizerFile, IgnoreMergesTakesAWholePieceFirst) {
  json file = small_file();
  file["model"]["merges"] = json::parse(R"(["b c", "a b"])");
  file["model"]["vocab"]["bc"] = 7;
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("abc", false), (std::vector<TokenId>{0, 7}));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(Tokenizer::parse(file.dump(), "f").encode("abc", false), std::vector<TokenId>{4});
}

TEST(TokenizerFile, ATemplateSaysWhatComesBeforeEveryText) {
  json file = small_file();
  file["post_processor"] = json::parse(R"({"type": "Sequence", "processors": [
    {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": false, "use_regex": true},
    {"type": "TemplateProcessing",
     "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
     "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [5], "tokens": ["<s>"]}}}]})");
  const Tokenizer tokenizer = Tokenizer::parse(file.dump(), "f");
  EXPECT_THAT(tokenizer.begin(), ::testing::ElementsAre(5));
  EXPECT_EQ(tokenizer.encode("a", true), std::vector<TokenId>{0}) << "encode itself puts nothing before";
}

TEST(TokenizerFile, AnUnknownTokenIsHonouredWhereItCannotOccur) {
  json file = json::parse(golden::read_file(golden::text_data("tiny/tokenizer.json")));
  file["model"]["unk_token"] = file["added_tokens"][0]["content"];
  EXPECT_EQ(Tokenizer::parse(file.dump(), "tiny").encode("a", false),
            golden::tiny_tokenizer().encode("a", false));
}

struct Damage {
  const char* name;
  std::function<void(json&)> apply;
  ErrorCode code;
  const char* sentence;  // part of it
};

void PrintTo(const Damage& damage, std::ostream* out) { *out << damage.name; }

constexpr ErrorCode kBad = ErrorCode::kBadFile, kNo = ErrorCode::kUnsupported;

json& step(json& file, int i) { return file["pre_tokenizer"]["pretokenizers"][static_cast<std::size_t>(i)]; }
json& added(json& file, int i) { return file["added_tokens"][static_cast<std::size_t>(i)]; }

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all{
      {"NoModel", [](json& f) { f.erase("model"); }, kBad, "\"model\" is missing"},
      {"ModelIsAList", [](json& f) { f["model"] = json::array(); }, kBad, "expected an object"},
      {"OtherModel", [](json& f) { f["model"]["type"] = "Unigram"; }, kNo, "\"Unigram\" is not supported"},
      {"ModelKey", [](json& f) { f["model"]["max_len"] = 3; }, kNo, "\"max_len\" is not something"},
      {"TopKey", [](json& f) { f["extra"] = 1; }, kNo, "\"extra\" is not something"},
      {"Version", [](json& f) { f["version"] = "2.0"; }, kNo, "\"version\" is \"2.0\""},
      {"Truncation",
       [](json& f) {
         f["truncation"] = {{"max_length", 3}};
       },
       kNo, "\"truncation\" is an object"},
      {"Padding",
       [](json& f) {
         f["padding"] = {{"pad_id", 0}};
       },
       kNo, "\"padding\" is an object"},
      {"Dropout", [](json& f) { f["model"]["dropout"] = 0.1; }, kNo, "\"dropout\" is 0.1"},
      {"Unknown", [](json& f) { f["model"]["unk_token"] = "a"; }, kNo, "\"unk_token\" is set"},
      {"Prefix", [](json& f) { f["model"]["continuing_subword_prefix"] = "##"; }, kNo,
       "continuing_subword_prefix"},
      {"Suffix", [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; }, kNo, "end_of_word_suffix"},
      {"ByteFallback", [](json& f) { f["model"]["byte_fallback"] = true; }, kNo, "\"byte_fallback\" is true"},
      {"VocabIsAList", [](json& f) { f["model"]["vocab"] = json::array({"a"}); }, kBad,
       "model.vocab: expected an object"},
      {"VocabEmpty", [](json& f) { f["model"]["vocab"] = json::object(); }, kBad, "model.vocab: it is empty"},
      {"IdIsText", [](json& f) { f["model"]["vocab"]["b"] = "1"; }, kBad,
       "\"b\" has an id that is not an integer"},
      {"IdNegative", [](json& f) { f["model"]["vocab"]["b"] = -1; }, kBad,
       "\"b\" has an id that is not an integer"},
      {"IdFraction", [](json& f) { f["model"]["vocab"]["b"] = 1.5; }, kBad,
       "\"b\" has an id that is not an integer"},
      {"IdTooLarge", [](json& f) { f["model"]["vocab"]["b"] = 4294967297; }, kBad, "not an integer from 0"},
      {"IdTwice", [](json& f) { f["model"]["vocab"]["c"] = 1; }, kBad,
       "id 1 belongs to both \"b\" and \"c\""},
      {"Hole", [](json& f) { f["model"]["vocab"]["abc"] = 9; }, kBad,
       "no token has id 4, though ids go up to 9"},
      {"EmptySpelling", [](json& f) { f["model"]["vocab"][""] = 7; }, kBad, "id 7 has an empty spelling"},
      {"MergeUnknownLeft", [](json& f) { f["model"]["merges"][1] = "x c"; }, kBad,
       "merge 1 needs the token \"x\""},
      {"MergeUnknownResult", [](json& f) { f["model"]["merges"][1] = "b c"; }, kBad,
       "merge 1 needs the token \"bc\""},
      {"MergeTwice", [](json& f) { f["model"]["merges"][1] = "a b"; }, kBad,
       "merges 0 and 1 are the same pair"},
      {"MergeOfOne", [](json& f) { f["model"]["merges"][0] = "ab"; }, kBad, "two spellings with one blank"},
      {"MergeOfThree", [](json& f) { f["model"]["merges"][0] = "a b c"; }, kBad,
       "two spellings with one blank"},
      {"MergeIsANumber", [](json& f) { f["model"]["merges"][0] = 3; }, kBad, "neither a string nor a pair"},
      {"MergesAreText", [](json& f) { f["model"]["merges"] = "a b"; }, kBad, "model.merges: expected a list"},
      {"AddedIsAnObject", [](json& f) { f["added_tokens"] = json::object(); }, kBad, "expected a list"},
      {"AddedNoContent", [](json& f) { added(f, 0).erase("content"); }, kBad, "\"content\" is missing"},
      {"AddedEmpty", [](json& f) { added(f, 0)["content"] = ""; }, kBad, "\"content\" is empty"},
      {"AddedFlagIsText", [](json& f) { added(f, 1)["special"] = "yes"; }, kBad,
       "added_tokens[1].special: found \"yes\""},
      {"AddedSingleWord", [](json& f) { added(f, 1)["single_word"] = true; }, kNo, "\"single_word\" is true"},
      {"AddedStrip", [](json& f) { added(f, 1)["lstrip"] = true; }, kNo, "\"lstrip\" is true"},
      {"AddedTwice", [](json& f) { added(f, 1)["content"] = "<s>"; }, kBad, "\"<s>\" appears twice"},
      {"AddedSameId", [](json& f) { added(f, 1)["id"] = 5; }, kBad, "id 5 belongs to both"},
      {"AddedOverVocab", [](json& f) { added(f, 1)["id"] = 2; }, kBad, "id 2 belongs to both"},
      {"AddedOtherId", [](json& f) { added(f, 1)["content"] = "ab"; }, kBad,
       "has id 6, and id 3 in the vocabulary"},
      {"Normalizer",
       [](json& f) {
         f["normalizer"] = {{"type", "NFC"}};
       },
       kNo, "the normalizer \"NFC\""},
      {"PreTokenizer",
       [](json& f) {
         step(f, 0) = {{"type", "Metaspace"}};
       },
       kNo, "the pre-tokenizer \"Metaspace\""},
      {"NoPreTokenizer", [](json& f) { f["pre_tokenizer"] = nullptr; }, kNo, "no ByteLevel step"},
      {"StepAfterBytes", [](json& f) { std::swap(step(f, 0), step(f, 1)); }, kNo, "a step after ByteLevel"},
      {"PrefixSpace", [](json& f) { step(f, 1)["add_prefix_space"] = true; }, kNo,
       "\"add_prefix_space\" is true"},
      {"Behavior", [](json& f) { step(f, 0)["behavior"] = "Removed"; }, kNo, "the behavior \"Removed\""},
      {"PatternString",
       [](json& f) {
         step(f, 0)["pattern"] = {{"String", " "}};
       },
       kNo, "\"String\" is not something"},
      {"PatternIsANumber", [](json& f) { step(f, 0)["pattern"]["Regex"] = 3; }, kBad,
       "found 3, expected a string"},
      {"PatternUnknown", [](json& f) { step(f, 0)["pattern"]["Regex"] = "\\p{Lu}"; }, kNo,
       "only L, M, N, P and S"},
      {"PatternOnManyLines", [](json& f) { step(f, 0)["pattern"]["Regex"] = "\n(a"; }, kNo, "'\\x0A(a'"},
      {"TypeOnManyLines", [](json& f) { step(f, 0)["type"] = "a\nb"; }, kNo, "\"a\\nb\""},
      {"PatternBroken", [](json& f) { step(f, 0)["pattern"]["Regex"] = "(a"; }, kNo, "a group is not closed"},
      {"TooManySteps", [](json& f) { f["pre_tokenizer"]["pretokenizers"] = json(40, step(f, 0)); }, kNo,
       "it has 40 steps"},
      {"Decoder",
       [](json& f) {
         f["decoder"] = {{"type", "WordPiece"}};
       },
       kNo, "the decoder \"WordPiece\""},
      {"NoDecoder", [](json& f) { f["decoder"] = nullptr; }, kNo, "it has 0 steps"},
      {"PostProcessor",
       [](json& f) {
         f["post_processor"] = {{"type", "BertProcessing"}};
       },
       kNo, "\"BertProcessing\""},
      {"TemplateIdOutOfRange",
       [](json& f) {
         f["post_processor"] = json::parse(R"({"type": "TemplateProcessing", "pair": [],
           "single": [{"SpecialToken": {"id": "x", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
           "special_tokens": {"x": {"id": "x", "ids": [77], "tokens": ["x"]}}})");
       },
       kBad, "adds id 77, and the largest id is 6"},
      {"TemplateAfter",
       [](json& f) {
         f["post_processor"] = json::parse(R"({"type": "TemplateProcessing", "pair": [],
           "single": [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "x", "type_id": 0}}],
           "special_tokens": {"x": {"id": "x", "ids": [5], "tokens": ["x"]}}})");
       },
       kNo, "after a text are not supported"},
  };
  return all;
}

class BadTokenizerFile : public ::testing::TestWithParam<Damage> {};

TEST_P(BadTokenizerFile, IsRefusedInOneSentence) {
  json file = small_file();
  GetParam().apply(file);
  ErrorCode code = ErrorCode::kInternal;
  const std::string sentence = refusal(file.dump(), &code);
  EXPECT_THAT(sentence, ::testing::HasSubstr(GetParam().sentence));
  EXPECT_THAT(sentence, ::testing::StartsWith("some/tokenizer.json"));
  EXPECT_THAT(sentence, ::testing::Not(::testing::HasSubstr("\n")));
  EXPECT_EQ(code, GetParam().code);
}

INSTANTIATE_TEST_SUITE_P(All, BadTokenizerFile, ::testing::ValuesIn(damages()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BadTokenizerText, IsRefusedInOneSentence) {
  const std::string good = small_file().dump();
  EXPECT_THAT(refusal(""), ::testing::HasSubstr("not valid JSON in UTF-8 (byte"));
  EXPECT_THAT(refusal("[1, 2]"), ::testing::HasSubstr("found a list, expected an object"));
  EXPECT_THAT(refusal(good + "x"), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), ::testing::HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal(R"({"version": 1e999})"), ::testing::HasSubstr("out of range"));
  std::string bad_utf8 = good;
  bad_utf8[bad_utf8.find("<s>") + 1] = '\xFF';
  EXPECT_THAT(refusal(bad_utf8), ::testing::HasSubstr("not valid JSON in UTF-8"));
  std::string twice = good;
  twice.replace(twice.find("\"b\":1"), 5, "\"a\":1");
  EXPECT_THAT(refusal(twice), ::testing::HasSubstr("the key \"a\" appears twice"));
}

TEST(BadTokenizerText, EveryCutOfAFileIsRefused) {
  const std::string good = small_file().dump();
  for (std::size_t length = 0; length < good.size(); ++length) {
    ASSERT_NE(refusal(good.substr(0, length)), "accepted") << "cut to " << length;
  }
}

TEST(BadTokenizerText, EveryFlippedBitIsRefusedOrUsable) {
  std::string text = small_file().dump();
  for (std::size_t bit = 0; bit < 8 * text.size(); ++bit) {
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
    try {
      const Tokenizer tokenizer = Tokenizer::parse(text, "flipped");
      for (const TokenId id : tokenizer.encode("abcab 1", true))
        ASSERT_LT(id, tokenizer.size()) << "bit " << bit;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("\n"))) << "bit " << bit;
    }
    text[bit / 8] = static_cast<char>(text[bit / 8] ^ 1 << bit % 8);
  }
}

TEST(BadTokenizerPath, IsRefusedInOneSentence) {
  const auto load = [](const std::string& path) -> std::string {
    try {
      Tokenizer::load(path);
    } catch (const Error& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(load("/no/such/tokenizer.json"), "/no/such/tokenizer.json: no such file");
  EXPECT_THAT(load(::testing::TempDir()), ::testing::HasSubstr("not a file"));
}

}  // namespace
}  // namespace seekline
