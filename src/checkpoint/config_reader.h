// Reads config.json: typed, bounded, and without leaving a key unexplained.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace seekline {

/// A reader of one JSON object. Getters that find something wrong note it and return a harmless value, so that
/// one pass reports everything; `finish` throws if anything was noted or a key was left unread.
/// A reader of a nested object shares the problems of its parent.
class ConfigReader {
 public:
  /// `subject` names the file in messages. `object` must outlive the reader.
  ConfigReader(const nlohmann::json& object, std::string subject);
  ConfigReader(const nlohmann::json& object, ConfigReader& parent, std::string path);

  bool has(std::string_view key) const;  ///< present and not null
  /// Required, within [lo, hi].
  std::int64_t integer(const char* key, std::int64_t lo, std::int64_t hi);
  std::int64_t integer_or(const char* key, std::int64_t fallback, std::int64_t lo, std::int64_t hi);
  double number(const char* key, double lo, double hi);
  double number_or(const char* key, double fallback, double lo, double hi);
  bool boolean_or(const char* key, bool fallback);
  std::string string(const char* key);
  std::string string_or(const char* key, const std::string& fallback);
  std::vector<std::int64_t> integers(const char* key, std::size_t max_count, std::int64_t lo, std::int64_t hi);
  std::vector<std::int64_t> integers_or(const char* key, std::size_t max_count, std::int64_t lo, std::int64_t hi);
  /// The key may be absent; where present it must be exactly this, since the engine honours nothing else.
  void must_be(const char* key, const char* expected);
  void must_be(const char* key, bool expected);
  void must_be(const char* key, std::int64_t expected);
  /// Keys that do not change the output of this engine (training, bookkeeping).
  void ignore(std::initializer_list<const char*> keys);
  /// The nested object, or nullptr if absent or null.
  const nlohmann::json* object(const char* key);

  void problem(std::string sentence);
  /// Every unread key becomes a problem of this reader ("key x is not one this engine knows how to honour").
  void no_other_keys();
  /// Root only. Throws Error(kUnsupported or kBadFile) with all problems.
  void finish();

 private:
  const nlohmann::json* take(const char* key, bool required);
  const nlohmann::json& object_;
  ConfigReader* root_;
  std::string subject_, path_;
  std::set<std::string, std::less<>> read_;
  std::vector<std::string> problems_;
};

/// Parses folder/config.json. Throws Error(kNotFound | kBadFile).
nlohmann::json read_config_file(const std::string& path);

}  // namespace seekline
