// Reads config.json: typed, bounded, and without leaving a key unexplained.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/problem_list.h"

namespace seekline {

/// A reader of one JSON object. Getters that find something wrong note it and return a harmless value (the
/// lower bound, an empty list), so that one pass reports everything; `finish` throws if anything was noted or
/// a key was left unread. A reader of a nested object shares the problems of its parent. null counts as
/// absent.
class ConfigReader {
 public:
  /// `subject` names the file in messages. `object` must outlive the reader. What is no object has no keys.
  ConfigReader(const nlohmann::json& object, std::string subject);
  /// `path` is the dotted path of the nested object, such as "text_config".
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
  std::vector<std::int64_t> integers(const char* key, std::size_t max_count, std::int64_t lo,
                                     std::int64_t hi);
  std::vector<std::int64_t> integers_or(const char* key, std::size_t max_count, std::int64_t lo,
                                        std::int64_t hi);
  /// One integer or a list of them; absent gives an empty list.
  std::vector<std::int64_t> integer_or_list(const char* key, std::size_t max_count, std::int64_t lo,
                                            std::int64_t hi);
  /// The key may be absent; where present it must be exactly this, since the engine honours nothing else.
  void must_be(const char* key, const char* expected);
  void must_be(const char* key, bool expected);
  void must_be(const char* key, std::int64_t expected);
  /// The key may be absent or null; anything else is refused for the reason given.
  void refuse(const char* key, const char* reason);
  /// Keys that do not change the output of this engine (training, bookkeeping).
  void ignore(std::initializer_list<const char*> keys);
  /// The nested object, or nullptr if absent or null.
  const nlohmann::json* object(const char* key);

  void problem(std::string sentence);      ///< kBadFile
  void unsupported(std::string sentence);  ///< kUnsupported
  bool clean() const { return root_->problems_.empty(); }
  /// Every unread key becomes a problem of this reader ("key x is not one this engine knows how to honour").
  void no_other_keys();
  /// Root only. Throws Error(kUnsupported | kBadFile) with all problems.
  void finish();

 private:
  const nlohmann::json* take(const char* key, bool required);
  std::string named(const char* key) const;  // "key 'text_config.hidden_size'"
  void wrong(const char* key, const nlohmann::json& found, const std::string& expected);
  void unhonoured(const char* key, const nlohmann::json& found, const std::string& expected);

  const nlohmann::json& object_;
  ConfigReader* root_;
  std::string subject_, path_;
  std::set<std::string, std::less<>> read_;
  ProblemList problems_;
};

/// Key `model_type` of a config, which names its family. Throws Error(kBadFile) where there is none.
std::string family_of_config(const nlohmann::json& config, const std::string& subject);

/// A config as the text of a file.
std::string config_text(const nlohmann::json& config);

/// Parses a config.json. Throws Error(kNotFound | kBadFile): too large, no JSON, too deep, or a key twice.
nlohmann::json read_config_file(const std::string& path);

}  // namespace seekline
