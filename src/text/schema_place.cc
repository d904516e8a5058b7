#include "text/schema_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "seekline/error.h"
#include "text/chat_python_json.h"

namespace seekline::grammar {
namespace {

constexpr std::string_view kKept[] = {
    "type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "$ref"};
constexpr std::string_view kIgnored[] = {"title",      "description", "default",    "examples",
                                         "deprecated", "readOnly",    "writeOnly",  "$schema",
                                         "$comment",   "$defs",       "definitions"};

constexpr std::size_t kLongestPlainName = 64;
constexpr std::size_t kLongestPath = 200;

bool contains(std::initializer_list<std::string_view> list, std::string_view key) {
  return std::find(list.begin(), list.end(), key) != list.end();
}

template <std::size_t N>
bool contains(const std::string_view (&list)[N], std::string_view key) {
  return std::find(std::begin(list), std::end(list), key) != std::end(list);
}

std::string below(const std::string& path, const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kLongestPlainName &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return c < 0x80 && (std::isalnum(c) != 0 || c == '_' || c == '-' || c == '$');
                     });
  std::string longer = plain ? fmt::format("{}.{}", path, name) : fmt::format("{}[{}]", path, shown(name));
  if (longer.size() > kLongestPath) longer = "schema..." + longer.substr(longer.size() - kLongestPath / 2);
  return longer;
}

// %41 is A, ~1 is /, ~0 is ~.
std::optional<std::string> unescaped(std::string_view part) {
  std::string text;
  for (std::size_t i = 0; i < part.size(); ++i) {
    if (part[i] != '%') {
      text += part[i];
      continue;
    }
    unsigned byte = 0;
    if (i + 2 >= part.size()) return std::nullopt;
    const auto [end, error] = std::from_chars(part.data() + i + 1, part.data() + i + 3, byte, 16);
    if (error != std::errc{} || end != part.data() + i + 3) return std::nullopt;
    text += static_cast<char>(byte);
    i += 2;
  }
  std::string name;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '~') {
      name += text[i];
    } else if (i + 1 < text.size() && (text[i + 1] == '0' || text[i + 1] == '1')) {
      name += text[++i] == '0' ? '~' : '/';
    } else {
      return std::nullopt;
    }
  }
  return name;
}

std::optional<std::size_t> index_in(const nlohmann::ordered_json& list, const std::string& name) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc{} || end != name.data() + name.size() || index >= list.size()) return std::nullopt;
  return index;
}

std::optional<SchemaPlace> step(const SchemaPlace& from, std::string_view part) {
  const std::optional<std::string> name = unescaped(part);
  if (!name) return std::nullopt;
  if (from.json->is_object() && from.json->contains(*name)) return from.member(*name);
  if (!from.json->is_array()) return std::nullopt;
  const std::optional<std::size_t> index = index_in(*from.json, *name);
  if (!index) return std::nullopt;
  return from.element(*index);
}

}  // namespace

SchemaPlace SchemaPlace::member(const std::string& name) const {
  return {&json->at(name), below(path, name)};
}

SchemaPlace SchemaPlace::element(std::size_t index) const {
  return {&json->at(index), fmt::format("{}[{}]", path, index)};
}

void SchemaPlace::wrong(const std::string& why) const {
  throw Error(ErrorCode::kUsage, fmt::format("{} {}", path, why));
}

void SchemaPlace::unsupported(const std::string& why) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("{} {}", path, why));
}

SchemaPlace resolve(const SchemaPlace& root, const SchemaPlace& reference) {
  if (!reference.json->is_string())
    reference.wrong(
        fmt::format("is {}; it must be a string such as \"#/$defs/name\"", shown(*reference.json)));
  const std::string& target = reference.json->get_ref<const std::string&>();
  if (target != "#" && !target.starts_with("#/"))
    reference.unsupported(fmt::format(
        "is {}; only paths in the same schema are supported, such as \"#/$defs/name\"", shown(target)));
  SchemaPlace place = root;
  for (std::size_t at = 1; at < target.size();) {
    const std::size_t end = std::min(target.find('/', at + 1), target.size());
    const std::optional<SchemaPlace> next =
        step(place, std::string_view(target).substr(at + 1, end - at - 1));
    if (!next) reference.wrong(fmt::format("is {}, which leads nowhere in the schema", shown(target)));
    place = *next;
    at = end;
  }
  return place;
}

void check_keywords(const SchemaPlace& schema, bool is_root) {
  for (const auto& [key, value] : schema.json->items()) {
    if (contains(kKept, key) || contains(kIgnored, key)) continue;
    if (key == "$id") {
      if (is_root) continue;
      schema.unsupported("has an $id; only the whole schema may have one");
    }
    schema.unsupported(
        fmt::format("uses the keyword {}, which constrained decoding does not support (supported: {})",
                    shown(key), fmt::join(kKept, ", ")));
  }
}

void check_alone(const SchemaPlace& schema, std::string_view keyword,
                 std::initializer_list<std::string_view> allowed) {
  for (const auto& [key, value] : schema.json->items())
    if (key != keyword && contains(kKept, key) && !contains(allowed, key))
      schema.unsupported(
          fmt::format("has {} beside {}; constrained decoding supports them only apart", key, keyword));
}

}  // namespace seekline::grammar
