#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "seekline/error.h"
#include "text/chat_json.h"

namespace seekline {
namespace {

// Keywords whose value is one schema, a list of schemas, or schemas by name.
constexpr std::string_view kOne[] = {"items"};
constexpr std::string_view kLists[] = {"anyOf", "prefixItems"};
constexpr std::string_view kNamed[] = {"properties", "$defs", "definitions"};

void make_strict(ChatJson& schema, const std::string& place);

void close_object(ChatJson& schema, const std::string& place) {
  if (!schema.contains("properties")) schema["properties"] = ChatJson::object();
  if (!schema["properties"].is_object())
    throw Error(ErrorCode::kUsage, fmt::format("{}.properties is {}; it must be an object", place,
                                               schema["properties"].type_name()));
  if (schema.contains("additionalProperties") && schema["additionalProperties"] != false)
    throw Error(ErrorCode::kUsage,
                fmt::format("{} is strict, so its additionalProperties must be false", place));
  ChatJson all = ChatJson::array();
  for (const auto& [key, property] : schema["properties"].items()) all.push_back(key);
  if (schema.contains("required")) {
    const ChatJson& given = schema["required"];
    const bool same = given.is_array() && given.size() == all.size() &&
                      std::all_of(all.begin(), all.end(), [&](const ChatJson& key) {
                        return std::find(given.begin(), given.end(), key) != given.end();
                      });
    if (!same)
      throw Error(ErrorCode::kUsage,
                  fmt::format("{} is strict, so its required must list every property", place));
  }
  if (!schema.contains("additionalProperties")) schema["additionalProperties"] = false;
  if (!schema.contains("required")) schema["required"] = all;
}

void make_strict(ChatJson& schema, const std::string& place) {
  if (!schema.is_object()) return;
  if (schema.contains("type") && schema["type"] == "object") close_object(schema, place);
  for (const std::string_view key : kOne)
    if (schema.contains(key)) make_strict(schema[std::string(key)], fmt::format("{}.{}", place, key));
  for (const std::string_view key : kLists)
    if (schema.contains(key))
      for (ChatJson& one : schema[std::string(key)]) make_strict(one, fmt::format("{}.{}", place, key));
  for (const std::string_view key : kNamed)
    if (schema.contains(key))
      for (auto& [name, one] : schema[std::string(key)].items())
        make_strict(one, fmt::format("{}.{}.{}", place, key, name));
}

}  // namespace

ChatJson strict_schema(const ChatJson& schema, const std::string& place) {
  ChatJson strict = schema;
  make_strict(strict, place);
  return strict;
}

}  // namespace seekline
