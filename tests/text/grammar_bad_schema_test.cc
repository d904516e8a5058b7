// Every schema that cannot be kept is refused in one sentence that names the place.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "grammar_helpers.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using golden::Json;

struct Refused {
  ErrorCode code;
  std::string sentence;
};

Refused refusal(const Json& schema) {
  try {
    Grammar::from_json_schema(schema);
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {ErrorCode::kInternal, "accepted"};
}

void expect_refused(const std::string& schema, ErrorCode code, const std::string& begin) {
  const Refused found = refusal(Json::parse(schema));
  EXPECT_EQ(found.code, code) << schema << "\n" << found.sentence;
  EXPECT_EQ(found.sentence.substr(0, begin.size()), begin) << schema;
  EXPECT_EQ(found.sentence.find('\n'), std::string::npos) << found.sentence;
  EXPECT_LT(found.sentence.size(), 500u) << found.sentence;
}

TEST(GrammarBadSchema, KeywordsThatAreNotKeptAreNamed) {
  const std::vector<std::string> keywords{"minLength",
                                          "maxLength",
                                          "pattern",
                                          "format",
                                          "minimum",
                                          "maximum",
                                          "exclusiveMinimum",
                                          "exclusiveMaximum",
                                          "multipleOf",
                                          "minItems",
                                          "maxItems",
                                          "uniqueItems",
                                          "contains",
                                          "minContains",
                                          "maxContains",
                                          "prefixItems",
                                          "additionalItems",
                                          "unevaluatedItems",
                                          "minProperties",
                                          "maxProperties",
                                          "patternProperties",
                                          "propertyNames",
                                          "dependentRequired",
                                          "dependentSchemas",
                                          "dependencies",
                                          "unevaluatedProperties",
                                          "allOf",
                                          "oneOf",
                                          "not",
                                          "if",
                                          "then",
                                          "else",
                                          "$anchor",
                                          "$dynamicRef",
                                          "$dynamicAnchor",
                                          "$recursiveRef",
                                          "$vocabulary",
                                          "contentEncoding",
                                          "contentMediaType",
                                          "nullable",
                                          "discriminator",
                                          "requried",
                                          ""};
  for (const std::string& keyword : keywords) {
    Json schema = Json::parse(R"({"type": "object", "properties": {"a": {}}})");
    schema["properties"]["a"][keyword] = 1;
    expect_refused(schema.dump(), ErrorCode::kUnsupported,
                   "schema.properties.a uses the keyword \"" + keyword + "\", which constrained decoding");
  }
}

TEST(GrammarBadSchema, SchemasThatAreNoneAreNamed) {
  const auto usage = [](const std::string& schema, const std::string& begin) {
    expect_refused(schema, ErrorCode::kUsage, begin);
  };
  usage("5", "schema is 5; a schema is an object, true or false");
  usage("null", "schema is null");
  usage(R"("x")", "schema is \"x\"");
  usage("[]", "schema is []");
  usage(R"({"type": "text"})", "schema.type is \"text\"; a type is one of null, boolean");
  usage(R"({"type": 1})", "schema.type is 1");
  usage(R"({"type": []})", "schema.type is an empty list");
  usage(R"({"type": ["string", 3]})", "schema.type[1] is 3");
  usage(R"({"type": "object", "properties": []})", "schema.properties is []; it must be an object");
  usage(R"({"type": "object", "properties": {"a b": 1}})", "schema.properties[\"a b\"] is 1; a schema is");
  usage(R"({"type": "object", "properties": {}, "required": "a"})",
        "schema.required is \"a\"; it must be a list");
  usage(R"({"type": "object", "required": [1]})", "schema.required is [1]");
  usage(R"({"type": "object", "additionalProperties": 1})", "schema.additionalProperties is 1");
  usage(R"({"type": "array", "items": "x"})", "schema.items is \"x\"");
  usage(R"({"enum": {}})", "schema.enum is {}; it must be a list of values");
  usage(R"({"enum": []})", "schema.enum is []");
  usage(R"({"anyOf": []})", "schema.anyOf is []; it must be a list of schemas");
  usage(R"({"anyOf": [{"type": "null"}, 4]})", "schema.anyOf[1] is 4");
}

TEST(GrammarBadSchema, ReferencesThatLeadNowhereAreNamed) {
  expect_refused(R"({"$ref": 1})", ErrorCode::kUsage, "schema.$ref is 1; it must be a string");
  for (const char* nowhere :
       {"#/$defs/b", "#/", "#/$defs/a/type/0", "#/$defs/%zz", "#/$defs/a~2", "#/$defs/a%4"}) {
    const Json schema{{"$ref", nowhere}, {"$defs", {{"a", {{"type", "null"}}}}}};
    expect_refused(schema.dump(), ErrorCode::kUsage,
                   "schema.$ref is \"" + std::string(nowhere) + "\", which leads");
  }
  for (const char* elsewhere : {"https://example.com/s", "other.json#/a", "#name", ""})
    expect_refused(Json{{"$ref", elsewhere}}.dump(), ErrorCode::kUnsupported,
                   "schema.$ref is \"" + std::string(elsewhere) + "\"; only paths in the same schema");
  expect_refused(R"({"$ref": "#"})", ErrorCode::kUsage, "schema leads back to itself");
  expect_refused(
      R"({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}})",
      ErrorCode::kUsage, "schema.$defs.a leads back to itself");
  expect_refused(R"({"$ref": "#/$defs/a", "$defs": {"a": 5}})", ErrorCode::kUsage, "schema.$defs.a is 5");
}

TEST(GrammarBadSchema, CombinationsThatWouldHaveToBeIntersectedAreNamed) {
  const auto unsupported = [](const std::string& schema, const std::string& begin) {
    expect_refused(schema, ErrorCode::kUnsupported, begin);
  };
  unsupported(R"({"$ref": "#/$defs/a", "type": "null", "$defs": {"a": {}}})", "schema has type beside $ref");
  unsupported(R"({"anyOf": [{}], "properties": {}})", "schema has properties beside anyOf");
  unsupported(R"({"enum": [1], "items": {}})", "schema has items beside enum");
  unsupported(R"({"const": 1, "required": []})", "schema has required beside const");
  unsupported(R"({"type": "array", "items": [{}]})", "schema.items is a list");
  unsupported(R"({"type": "array", "items": {"$id": "x"}})", "schema.items has an $id");
}

TEST(GrammarBadSchema, SchemasWithoutAnyValueAreNamed) {
  const auto nothing = [](const std::string& schema) {
    expect_refused(schema, ErrorCode::kUsage, "schema allows no");
  };
  nothing("false");
  nothing(R"({"anyOf": [false, false]})");
  nothing(R"({"type": "string", "enum": [1, 2]})");
  nothing(R"({"const": 1, "enum": [2]})");
  nothing(R"({"type": "object", "properties": {"a": false}, "required": ["a"]})");
  nothing(R"({"type": "object", "required": ["a"], "additionalProperties": false})");
  nothing(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})");
}

TEST(GrammarBadSchema, SizesAreLimited) {
  // Twice as long at each of 30 levels of definitions: 1 GB at the shortest.
  Json doubling{{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 30; ++i) {
    const Json next = i == 29 ? Json{{"type", "null"}} : Json{{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    doubling["$defs"]["d" + std::to_string(i)] =
        Json{{"type", "object"}, {"properties", {{"a", next}, {"b", next}}}, {"required", {"a", "b"}}};
  }
  expect_refused(doubling.dump(), ErrorCode::kUsage, "schema allows no JSON value of at most");
  Json deep{{"type", "null"}};
  for (int i = 0; i < 70; ++i)
    deep = Json{{"type", "object"}, {"properties", {{"a", deep}}}, {"required", {"a"}}};
  expect_refused(deep.dump(), ErrorCode::kLimit, "schema asks for 70 levels");
  Json chain{{"type", "null"}};
  for (int i = 0; i < 120; ++i) chain = Json{{"anyOf", {chain}}};
  const Refused found = refusal(chain);
  EXPECT_EQ(found.code, ErrorCode::kLimit) << found.sentence;
  EXPECT_NE(found.sentence.find("more than 100 $ref and anyOf"), std::string::npos) << found.sentence;
  EXPECT_LT(found.sentence.size(), 500u);
  Json large = Json::array();
  for (int i = 0; i < 100'000; ++i) large.push_back(std::to_string(i * 7919LL) + " words");
  expect_refused(Json{{"enum", large}}.dump(), ErrorCode::kLimit, "the schema needs more than");
}

}  // namespace
}  // namespace seekline
