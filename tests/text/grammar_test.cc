// What a grammar lets through, fact by fact.
#include <gtest/gtest.h>

#include <string>

#include "grammar_helpers.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using golden::byte_vocabulary;
using golden::Json;
using golden::reads;

TEST(Grammar, JsonObjectReadsObjectsOnly) {
  const Grammar object = Grammar::json_object();
  for (const char* text : {"{}", R"({"a":1})", R"({"a": {"b": [1, 2.5e-3, "x", null, true, {}]}, "c": ""})",
                           "{\n  \"a\": [\n    1,\n    2\n  ]\n}", "{ }", R"({"\u00e9\n":-0})"})
    EXPECT_EQ(reads(object, text), "whole") << text;
  for (const char* text :
       {"[", "1", "\"", " {", "{\"a\":1} ", "{'", "{,", "{\"a\",", "{\"a\":01", "{\"a\":1,}", "{\"a\":+1",
        "{\"a\":.5", "{\"a\":1.,", "{\"a\":nul,", "{}{", "{\"a\":\"\n"})
    EXPECT_EQ(reads(object, text), "no") << text;
  for (const char* text : {"", "{", "{\"a", "{\"a\": 1", "{\"a\":[", "{\"a\":1e"})
    EXPECT_EQ(reads(object, text), "part") << text;
}

TEST(Grammar, WhiteSpaceIsThatOfPrettyPrintersAndEnds) {
  const Grammar object = Grammar::json_object();
  for (const char* text : {"{ \"a\": 1 }", "{\n\t\"a\": 1\n}", "{\"a\":[1, 2]}", "{\"a\": [ 1,\n 2 ]}"})
    EXPECT_EQ(reads(object, text), "whole") << text;
  for (const char* text :
       {"{  ", "{\n\n", "{ \n", "{\"a\" :", "{\"a\":  1", "{\"a\":\n", "{\"a\":1 ,", "{\r\n"})
    EXPECT_EQ(reads(object, text), "no") << text;
  EXPECT_EQ(reads(object, "{\n" + std::string(40, ' ')), "part");
  EXPECT_EQ(reads(object, "{\n" + std::string(41, ' ')), "no");
}

TEST(Grammar, StringsAreUtf8WithProperEscapes) {
  const std::string schema = R"({"type": "string"})";
  for (const char* text :
       {R"("")", R"("a\"\\\/\b\f\n\r\tz")", R"("\u00e9\uD7FF\ue000\uFFFF")", R"("\ud83d\ude00\uDBFF\uDFFF")",
        "\"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xF4\x8F\xBF\xBF\xEE\x80\x80\xED\x9F\xBF\x7F\""})
    EXPECT_EQ(reads(schema, text), "whole") << text;
  for (const char* text : {"\"\n",        "\"\x1F",      R"("\a)",       R"("\x)",           R"("\u12g)",
                           R"("\ud83d")", R"("\ud83dx)", R"("\ud83d\n)", R"("\ud83d\u0041)", R"("\ude00)",
                           R"("\uDC00)",  "\"\xC3(",     "\"\x80",       "\"\xC0",           "\"\xE0\x80",
                           "\"\xED\xA0",  "\"\xF0\x80",  "\"\xF4\x90",   "\"\xF5",           "\"\xE4\xB8\""})
    EXPECT_EQ(reads(schema, text), "no") << text;
  EXPECT_EQ(reads(schema, "\"\xE4\xB8"), "part");
}

TEST(Grammar, NumbersKeepTheirDigitLimits) {
  const std::string integer = R"({"type": "integer"})", number = R"({"type": "number"})";
  for (const char* text : {"0", "-0", "-12", "999999999999999999"}) {
    EXPECT_EQ(reads(integer, text), "whole") << text;
    EXPECT_EQ(reads(number, text), "whole") << text;
  }
  for (const char* text : {"00", "01", "-01", "1000000000000000000", "+1", "--1", "0x"}) {
    EXPECT_EQ(reads(integer, text), "no") << text;
    EXPECT_EQ(reads(number, text), "no") << text;
  }
  for (const char* text :
       {"0.5", "1e5", "1E+05", "-1.25e-10", "0.12345678901234567", "999999999999999999e99"}) {
    EXPECT_EQ(reads(integer, text), "no") << text;
    EXPECT_EQ(reads(number, text), "whole") << text;
  }
  for (const char* text : {"0.123456789012345678", "1e100", "1e+100", "1.e", ".5", "1e5.", "1ee"})
    EXPECT_EQ(reads(number, text), "no") << text;
  for (const char* text : {"-", "1.", "1e", "1e-"}) EXPECT_EQ(reads(number, text), "part") << text;
}

TEST(Grammar, PropertiesKeepTheOrderOfTheSchema) {
  const std::string schema =
      R"({"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "null"}, "m": {"enum": ["x"]}},
          "required": ["a"]})";
  for (const char* text :
       {R"({"a":null})", R"({"z":1,"a":null})", R"({"a":null,"m":"x"})", R"({"z": 1, "a": null, "m": "x"})"})
    EXPECT_EQ(reads(schema, text), "whole") << text;
  for (const char* text : {"{}", R"({"z":1})", R"({"z":1,"m)", R"({"m)", R"({"a":null,"z)", R"({"a":null,"a)",
                           R"({"b)", R"({"a":null,"b)", R"({"a":1)", R"({"a":null,"m":"y)", R"({"z":"1)"})
    EXPECT_EQ(reads(schema, text), "no") << text;
}

TEST(Grammar, FurtherPropertiesComeLastAndHaveOtherNames) {
  const std::string schema =
      R"({"type": "object", "properties": {"ab": {"type": "null"}, "é": {"type": "null"}, "a\"b": {"type": "null"}},
          "additionalProperties": {"type": "integer"}})";
  for (const char* text :
       {"{}", R"({"ab":null})", R"({"x":1})", R"({"ab":null,"a":1,"abc":2,"":3})", R"({"e":1})",
        R"({"é":null,"è":1})", R"({"a\"b":null,"b":1})", R"({"aé":1,"éa":2})"})
    EXPECT_EQ(reads(schema, text), "whole") << text;
  for (const char* text : {R"({"ab":1)", R"({"é":1)", R"({"x":null)", R"({"x":1,"ab")", R"({"x":1,"é")",
                           R"({"\u0061)", R"({"x\n)", R"({"a\"b":1)"})
    EXPECT_EQ(reads(schema, text), "no") << text;
}

TEST(Grammar, WithoutAdditionalPropertiesAListOfPropertiesIsTheWholeList) {
  EXPECT_EQ(reads(R"({"properties": {"a": true}, "type": "object"})", R"({"b)"), "no");
  EXPECT_EQ(reads(R"({"type": "object"})", R"({"b":[1]})"), "whole");
  EXPECT_EQ(
      reads(R"({"type": "object", "additionalProperties": {"type": "null"}})", R"({"b":null,"c\n":null})"),
      "whole");
  EXPECT_EQ(reads(R"({"type": "object", "additionalProperties": false})", R"({)"), "part");
  EXPECT_EQ(reads(R"({"type": "object", "additionalProperties": false})", R"({")"), "no");
  EXPECT_EQ(
      reads(R"({"type": "object", "properties": {"a": {}}, "required": ["b"]})", R"({"a":1,"b":"any"})"),
      "whole");
  EXPECT_EQ(reads(R"({"type": "object", "properties": {"a": {}}, "required": ["b"]})", R"({"a":1})"), "no");
}

TEST(Grammar, FalseForbids) {
  EXPECT_EQ(reads(R"({"type": "object", "properties": {"a": false, "b": true}})", R"({"a)"), "no");
  EXPECT_EQ(reads(R"({"type": "object", "properties": {"a": false, "b": true}})", R"({"b":1})"), "whole");
  EXPECT_EQ(
      reads(R"({"type": "object", "properties": {"a": false}, "additionalProperties": true})", R"({"a")"),
      "no");
  EXPECT_EQ(reads(R"({"type": "array", "items": false})", "[]"), "whole");
  EXPECT_EQ(reads(R"({"type": "array", "items": false})", "[1"), "no");
  EXPECT_EQ(reads(R"({"anyOf": [false, {"type": "null"}]})", "null"), "whole");
  EXPECT_EQ(reads(R"({"anyOf": [false, {"type": "null"}]})", "1"), "no");
}

TEST(Grammar, EnumAndConstAreTakenLiterally) {
  const std::string schema = R"({"enum": ["on", "one", 1, 12, 1.5, null, {"a": [1, "é"]}, "q\"\n"]})";
  for (const char* text : {R"("on")", R"("one")", "1", "12", "1.5", "null", R"({"a":[1,"é"]})", R"("q\"\n")"})
    EXPECT_EQ(reads(schema, text), "whole") << text;
  for (const char* text : {R"("o")", "2", "11", R"({"a": )", R"("\u006f)"})
    EXPECT_EQ(reads(schema, text), "no") << text;
  EXPECT_EQ(reads(R"({"const": {"x": 1}})", R"({"x":1})"), "whole");
  EXPECT_EQ(reads(R"({"type": "integer", "enum": ["1", 2, 3.5, 4.0]})", "2"), "whole");
  EXPECT_EQ(reads(R"({"type": "integer", "enum": ["1", 2, 3.5, 4.0]})", "4.0"), "whole");
  EXPECT_EQ(reads(R"({"type": "integer", "enum": ["1", 2, 3.5, 4.0]})", "3"), "no");
  EXPECT_EQ(reads(R"({"const": 2, "enum": [1, 2, 3]})", "3"), "no");
}

TEST(Grammar, TypesMayBeSeveralAndAnyOfMayOverlap) {
  EXPECT_EQ(reads(R"({"type": ["string", "null"]})", "null"), "whole");
  EXPECT_EQ(reads(R"({"type": ["string", "null"]})", "1"), "no");
  EXPECT_EQ(reads(R"({"type": ["integer", "number"]})", "1.5"), "whole");
  const std::string shapes = R"({"anyOf": [
    {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["kind", "r"]},
    {"type": "object", "properties": {"kind": {"const": "cube"}, "a": {"type": "number"}}, "required": ["kind", "a"]}]})";
  EXPECT_EQ(reads(shapes, R"({"kind":"circle","r":1})"), "whole");
  EXPECT_EQ(reads(shapes, R"({"kind":"cube","a":1})"), "whole");
  EXPECT_EQ(reads(shapes, R"({"kind":"c)"), "part");
  EXPECT_EQ(reads(shapes, R"({"kind":"circle","a)"), "no");
}

TEST(Grammar, ReferencesMayRecurse) {
  const std::string tree = R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object",
    "properties": {"value": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                   "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}, "required": ["value", "next"]}}})";
  EXPECT_EQ(reads(tree, R"({"value":1,"next":{"value":2,"next":null},"children":[{"value":3,"next":null}]})"),
            "whole");
  EXPECT_EQ(reads(tree, R"({"value":1,"next":{"value":2})"), "no");
  EXPECT_EQ(
      reads(
          R"({"type": "object", "properties": {"a/b~c %": {"type": "null"}, "d": {"$ref": "#/properties/a~1b~0c%20%25"}}})",
          R"({"d":null})"),
      "whole");
  EXPECT_EQ(
      reads(
          R"({"type": "array", "items": {"anyOf": [{"$ref": "#"}, {"$ref": "#/items/anyOf/2"}, {"const": 7}]}})",
          "[[7],7,[]]"),
      "whole");
}

TEST(Grammar, AnnotationsAreIgnored) {
  EXPECT_EQ(
      reads(R"({"$schema": "x", "$id": "y", "title": "t", "description": "d", "default": 1, "examples": [2],
                      "$comment": "c", "deprecated": true, "readOnly": true, "writeOnly": false, "type": "null"})",
            "null"),
      "whole");
}

TEST(Grammar, LevelsAreLimited) {
  const std::string deep = R"({"type": "array"})";
  EXPECT_EQ(reads(deep, std::string(64, '[') + std::string(64, ']')), "whole");
  EXPECT_EQ(reads(deep, std::string(65, '[')), "no");
  EXPECT_EQ(reads(deep, std::string(64, '[') + "{"), "no");
  EXPECT_EQ(reads(deep, std::string(64, '[') + "1"), "part");
}

// At the last level only what needs no further one is offered, so no text is caught without an end.
TEST(Grammar, LevelsThatAreNeededAreKeptFree) {
  const std::string pairs =
      R"({"$ref": "#/$defs/list", "$defs": {"list": {"type": "array", "items": {"anyOf": [
      {"$ref": "#/$defs/list"}, {"type": "object", "properties": {"in": {"type": "object",
       "properties": {"x": {"type": "null"}}, "required": ["x"]}}, "required": ["in"]}]}}}})";
  EXPECT_EQ(reads(pairs, std::string(62, '[') + R"({"in":{"x":null}})" + std::string(62, ']')), "whole");
  EXPECT_EQ(reads(pairs, std::string(63, '[') + "{"), "no");
  EXPECT_EQ(reads(pairs, std::string(64, '[') + "]"), "part");
}

TEST(Grammar, ShortestCompletionsAreShort) {
  EXPECT_EQ(Grammar::json_object().shortest(), "{}");
  EXPECT_EQ(
      Grammar::from_json_schema(
          Json::parse(
              R"({"type": "object", "properties": {"a": {"type": "string"}, "b": {}, "c": {"enum": ["long", 7]}},
                    "required": ["a", "c"]})"))
          .shortest(),
      R"({"a":"","c":7})");
  const auto completion = [](const std::string& text) {
    GrammarState state(Grammar::json_object(), byte_vocabulary());
    EXPECT_TRUE(state.accept_text(text)) << text;
    return state.completion();
  };
  EXPECT_EQ(completion(R"({"a": [1, {"b": "x)"), R"("}]})");
  EXPECT_EQ(completion(R"({"a": -)"), "0}");
  EXPECT_EQ(completion(R"({"a": tr)"), "ue}");
  EXPECT_EQ(completion(R"({"a)").substr(0, 2), R"(":)");
  EXPECT_EQ(completion(R"({"a": "\ud83d)"), R"(\uDC00"})");
  EXPECT_EQ(completion("{\"a\": \"\xE4"), "\x80\x80\"}");
  EXPECT_EQ(completion("{}"), "");
}

TEST(Grammar, EndsAreToldApart) {
  GrammarState number(Grammar::from_json_schema(Json::parse(R"({"type": "integer"})")), byte_vocabulary());
  EXPECT_FALSE(number.can_end());
  EXPECT_FALSE(number.accept(256));
  ASSERT_TRUE(number.accept('7'));
  EXPECT_TRUE(number.can_end());
  EXPECT_FALSE(number.finished());
  std::vector<std::uint8_t> allowed(300, 9);
  number.mask(allowed);
  EXPECT_EQ(allowed[256], 1);
  EXPECT_EQ(allowed['8'], 1);
  EXPECT_EQ(allowed['.'], 0);
  EXPECT_EQ(allowed[299], 0);
  ASSERT_TRUE(number.accept(256));
  EXPECT_TRUE(number.finished());
  EXPECT_FALSE(number.accept('8'));
  GrammarState word(Grammar::from_json_schema(Json::parse(R"({"type": "null"})")), byte_vocabulary());
  ASSERT_TRUE(word.accept_text("null"));
  EXPECT_TRUE(word.finished());
}

TEST(Grammar, AdvanceClosesTheTextWhenTokensRunOut) {
  GrammarState state(Grammar::json_object(), byte_vocabulary());
  ASSERT_TRUE(state.accept_text(R"({"a": ")"));
  EXPECT_FALSE(state.advance('x', 10));
  EXPECT_FALSE(state.advance('y', 3));  // "} still fits
  EXPECT_EQ(state.advance('z', 2), (std::vector<TokenId>{'"', '}'}));
  EXPECT_TRUE(state.finished());
  GrammarState number(Grammar::from_json_schema(Json::parse(R"({"type": "integer"})")), byte_vocabulary());
  EXPECT_FALSE(number.advance('7', 1));
  EXPECT_EQ(number.advance('7', 0), std::vector<TokenId>{});  // nothing is missing
  EXPECT_TRUE(number.finished());
}

TEST(TokenVocabulary, SpellsWithLongTokensFirst) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte) texts.emplace_back(1, static_cast<char>(byte));
  texts.insert(texts.end(), {"ab", "abcd", "\"}", ""});
  const TokenVocabulary vocabulary(texts, {259});
  EXPECT_EQ(vocabulary.spell("abcabcd\"}"), (std::vector<TokenId>{256, 'c', 257, 258}));
  EXPECT_EQ(vocabulary.spell(""), std::vector<TokenId>{});
}

TEST(TokenVocabulary, RefusesAVocabularyThatCannotSpellJson) {
  std::vector<std::string> texts;
  for (int byte = 0; byte < 256; ++byte)
    if (byte != '{') texts.emplace_back(1, static_cast<char>(byte));
  try {
    const TokenVocabulary vocabulary(texts, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the vocabulary has no token for the byte 0x7B, which constrained decoding needs");
  }
}

}  // namespace
}  // namespace seekline
