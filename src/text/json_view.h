// Typed access to one parsed JSON file whose every mistake must give a sentence that names the place.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "seekline/error.h"

namespace seekline {

/// A value and where it stands ("tokenizer.json: model.vocab"). Does not own the value. Whatever is not as
/// asked throws Error(kBadFile | kUnsupported).
class JsonView {
 public:
  /// The whole file has an empty path.
  JsonView(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  const nlohmann::json& json() const { return *value_; }
  bool is_null() const { return value_->is_null(); }
  bool is_object() const { return value_->is_object(); }

  [[noreturn]] void bad(const std::string& why) const { fail(ErrorCode::kBadFile, why); }
  [[noreturn]] void unsupported(const std::string& why) const { fail(ErrorCode::kUnsupported, why); }

  bool has(const char* key) const;  ///< present and not null
  /// A member that must be there (it may be null).
  JsonView member(const char* key) const;
  std::vector<JsonView> elements() const;
  /// The names of an object's members that are none of these are refused: they might change the result.
  void only(std::initializer_list<const char*> keys) const;

  const std::string& string() const;
  bool boolean() const;
  /// An integer of at least 0 that fits a token id.
  std::int32_t id() const;
  /// The optional member `key`, which must be `expected` where it is there and not null.
  void must_be(const char* key, const nlohmann::json& expected) const;
  /// The value as it may stand in a sentence: short, in ASCII, on one line.
  std::string shown() const;
  /// The name of a component: its "type".
  const std::string& type() const { return member("type").string(); }

 private:
  [[noreturn]] void fail(ErrorCode code, const std::string& why) const;
  void expect(bool right, const char* expected) const;

  const nlohmann::json* value_;
  std::string file_, path_;
};

/// Parses `text`; `name` names the file in messages. Throws Error(kBadFile): not JSON, not UTF-8, or a key
/// twice.
nlohmann::json parse_json(const std::string& text, const std::string& name);

}  // namespace seekline
