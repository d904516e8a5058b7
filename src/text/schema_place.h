// Where in a schema something stands, and how sentences about it begin.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace seekline::grammar {

/// A schema inside the document, with its path as sentences name it: "schema.properties.city".
struct SchemaPlace {
  const nlohmann::ordered_json* json = nullptr;
  std::string path = "schema";

  /// The member `name`, which must be there.
  SchemaPlace member(const std::string& name) const;
  SchemaPlace element(std::size_t index) const;
  bool has(const char* name) const { return json->is_object() && json->contains(name); }

  /// Error(kUsage): the schema is none.
  [[noreturn]] void wrong(const std::string& why) const;
  /// Error(kUnsupported).
  [[noreturn]] void unsupported(const std::string& why) const;
};

/// What "#/…" points to; a $ref that points elsewhere or nowhere is an error at `reference`.
SchemaPlace resolve(const SchemaPlace& root, const SchemaPlace& reference);

/// Refuses keywords that are neither kept nor annotations.
void check_keywords(const SchemaPlace& schema, bool is_root);
/// Refuses supported keywords that stand beside `keyword` and are not in `allowed`.
void check_alone(const SchemaPlace& schema, std::string_view keyword,
                 std::initializer_list<std::string_view> allowed);

}  // namespace seekline::grammar
