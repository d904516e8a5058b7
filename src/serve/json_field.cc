#include "serve/json_field.h"

#include <cmath>

#include <fmt/format.h>

#include "serve/api_error.h"

namespace seekline::serve {
namespace {

constexpr int kMaxDepth = 64;

// Counted before parsing, outside of strings: what follows may use recursion.
bool is_deep(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

[[noreturn]] void bad_body(const std::string& message) { throw ApiError(400, message, "invalid_json"); }

}  // namespace

ChatJson parse_body(std::string_view text) {
  if (text.empty()) bad_body("the body is empty; it must be a JSON object");
  if (is_deep(text)) bad_body(fmt::format("the body nests arrays and objects more than {} deep", kMaxDepth));
  try {
    ChatJson body = ChatJson::parse(text);
    if (!body.is_object())
      bad_body(fmt::format("the body is {}; it must be a JSON object", body.type_name()));
    return body;
  } catch (const ChatJson::exception& error) {
    std::string why = error.what();
    if (const std::size_t tag = why.find("] "); tag != std::string::npos) why.erase(0, tag + 2);
    bad_body("the body is not JSON: " + why.substr(0, 200));
  }
}

Field Field::operator[](std::string_view key) const {
  const auto found = value_->find(key);
  return {found == value_->end() ? nullptr : &*found,
          path_.empty() ? std::string(key) : path_ + "." + std::string(key)};
}

Field Field::at(std::size_t index) const { return {&(*value_)[index], fmt::format("{}[{}]", path_, index)}; }

void Field::refuse(const std::string& why) const {
  throw ApiError(400, (path_.empty() ? "the request" : path_) + " " + why, "invalid_value", path_);
}

const Field& Field::object() const {
  if (!present()) refuse("is missing");
  if (!value_->is_object()) refuse(fmt::format("is {}; it must be an object", value_->type_name()));
  return *this;
}

const Field& Field::array(std::string_view expected) const {
  if (!present()) refuse("is missing");
  if (!value_->is_array()) refuse(fmt::format("is {}; it must be {}", value_->type_name(), expected));
  return *this;
}

std::string Field::text() const {
  if (!present()) refuse("is missing");
  if (!value_->is_string()) refuse(fmt::format("is {}; it must be a string", value_->type_name()));
  return value_->get<std::string>();
}

bool Field::flag(bool otherwise) const {
  if (!present()) return otherwise;
  if (!value_->is_boolean()) refuse(fmt::format("is {}; it must be true or false", value_->type_name()));
  return value_->get<bool>();
}

std::int64_t Field::integer(std::int64_t min, std::int64_t max) const {
  if (!present()) refuse("is missing");
  const bool whole =
      value_->is_number_float() && std::nearbyint(value_->get<double>()) == value_->get<double>();
  if (!value_->is_number_integer() && !whole)
    refuse(fmt::format("is {}; it must be a whole number",
                       value_->is_number() ? to_text(*value_) : value_->type_name()));
  const double approximate = value_->get<double>();
  const bool in_range = approximate >= static_cast<double>(min) && approximate <= static_cast<double>(max);
  if (!in_range) refuse(fmt::format("is {}; it must be from {} to {}", to_text(*value_), min, max));
  return value_->get<std::int64_t>();
}

double Field::number(double min, double max) const {
  if (!present()) refuse("is missing");
  if (!value_->is_number()) refuse(fmt::format("is {}; it must be a number", value_->type_name()));
  const double value = value_->get<double>();
  if (!(value >= min && value <= max))
    refuse(fmt::format("is {}; it must be from {} to {}", value, min, max));
  return value;
}

void Field::refuse_members(std::initializer_list<std::string_view> keys) const {
  for (const std::string_view key : keys) {
    const Field member = (*this)[key];
    if (!member.present()) continue;
    const ChatJson& value = member.json();
    const bool asks_nothing =
        value == false || ((value.is_array() || value.is_object() || value.is_string()) && value.empty());
    if (!asks_nothing) member.refuse("is not supported by this server; leave it out");
  }
}

}  // namespace seekline::serve
