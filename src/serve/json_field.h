// Reading a request's JSON: every mistake is a 400 that names the field, what was found and what was
// expected.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "text/chat.h"

namespace seekline::serve {

/// Parses a body that must be a JSON object in UTF-8 with at most 64 levels. Throws ApiError.
ChatJson parse_body(std::string_view text);

/// A value and the path it was found at. Does not own the value.
class Field {
 public:
  Field(const ChatJson* value, std::string path) : value_(value), path_(std::move(path)) {}

  bool present() const { return value_ != nullptr && !value_->is_null(); }
  const ChatJson& json() const { return *value_; }
  const std::string& path() const { return path_; }
  bool is_text() const { return present() && value_->is_string(); }
  bool is_array() const { return present() && value_->is_array(); }
  bool is_object() const { return present() && value_->is_object(); }
  bool is_true() const { return present() && value_->is_boolean() && value_->get<bool>(); }

  /// A member of an object; absent ones are not present().
  Field operator[](std::string_view key) const;
  Field at(std::size_t index) const;
  std::size_t size() const { return value_->size(); }

  const Field& object() const;
  /// `expected`: what the caller would have taken, in words.
  const Field& array(std::string_view expected = "an array") const;
  std::string text() const;
  std::string text_or(std::string_view otherwise) const {
    return present() ? text() : std::string(otherwise);
  }
  bool flag(bool otherwise) const;
  std::int64_t integer(std::int64_t min, std::int64_t max) const;
  std::int64_t integer_or(std::int64_t otherwise, std::int64_t min, std::int64_t max) const {
    return present() ? integer(min, max) : otherwise;
  }
  double number(double min, double max) const;
  double number_or(double otherwise, double min, double max) const {
    return present() ? number(min, max) : otherwise;
  }

  /// 400 "<path> <why>".
  [[noreturn]] void refuse(const std::string& why) const;
  /// The fields `keys` would change the answer and are not supported; null, false and empty values ask for
  /// nothing.
  void refuse_members(std::initializer_list<std::string_view> keys) const;

 private:
  const ChatJson* value_;
  std::string path_;
};

}  // namespace seekline::serve
