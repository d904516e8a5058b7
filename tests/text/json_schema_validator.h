// A small validator of JSON Schema, written for reading and apart from the code under test: the keywords that
// constrained decoding supports, as the standard says (not as our grammar narrows them).
#pragma once

#include <cmath>
#include <string>

#include <nlohmann/json.hpp>

namespace seekline::golden {

class JsonSchemaValidator {
 public:
  using Json = nlohmann::ordered_json;
  explicit JsonSchemaValidator(const Json& root) : root_(root) {}

  bool valid(const Json& value) const { return valid(value, root_); }

 private:
  static bool has_type(const Json& value, const std::string& type) {
    if (type == "integer")
      return value.is_number_integer() ||
             (value.is_number_float() && std::floor(value.get<double>()) == value);
    if (type == "number") return value.is_number();
    return std::string(value.type_name()) == type;
  }

  bool valid(const Json& value, const Json& schema) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [key, rule] : schema.items())
      if (!keeps(value, schema, key, rule)) return false;
    return true;
  }

  bool keeps(const Json& value, const Json& schema, const std::string& key, const Json& rule) const {
    if (key == "$ref") {
      const std::string pointer = rule.get<std::string>().substr(1);
      return valid(value, root_.at(Json::json_pointer(pointer)));
    }
    if (key == "anyOf") {
      for (const Json& one : rule)
        if (valid(value, one)) return true;
      return false;
    }
    if (key == "const") return equal(value, rule);
    if (key == "enum") {
      for (const Json& one : rule)
        if (equal(value, one)) return true;
      return false;
    }
    if (key == "type") {
      if (rule.is_string()) return has_type(value, rule);
      for (const Json& one : rule)
        if (has_type(value, one)) return true;
      return false;
    }
    if (value.is_array() && key == "items") {
      for (const Json& item : value)
        if (!valid(item, rule)) return false;
    }
    if (!value.is_object()) return true;
    if (key == "required") {
      for (const Json& name : rule)
        if (!value.contains(name.get<std::string>())) return false;
    }
    if (key == "properties") {
      for (const auto& [name, one] : rule.items())
        if (value.contains(name) && !valid(value.at(name), one)) return false;
    }
    if (key == "additionalProperties") {
      for (const auto& [name, one] : value.items())
        if (!(schema.contains("properties") && schema["properties"].contains(name)) && !valid(one, rule))
          return false;
    }
    return true;
  }

  // Objects are equal whatever the order of their members.
  static bool equal(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

  const Json& root_;
};

}  // namespace seekline::golden
