#include "checkpoint/config_reader.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/mapped_file.h"

namespace seekline {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxConfigBytes = 4'000'000;
constexpr int kMaxDepth = 32;

std::string shown(const json& value) {
  std::string text = value.dump();
  if (text.size() > 80) text = text.substr(0, 80) + "...";
  return text;
}

std::string list_of(std::size_t max_count, std::int64_t lo, std::int64_t hi) {
  return fmt::format("a list of at most {} whole numbers from {} to {}", max_count, lo, hi);
}

bool within(const json& value, std::int64_t lo, std::int64_t hi) {
  if (!value.is_number_integer()) return false;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return false;
  const auto number = value.get<std::int64_t>();
  return number >= lo && number <= hi;
}

}  // namespace

ConfigReader::ConfigReader(const json& object, std::string subject)
    : object_(object), root_(this), subject_(std::move(subject)) {
  if (!object.is_object()) problem("is not a JSON object");
}

ConfigReader::ConfigReader(const json& object, ConfigReader& parent, std::string path)
    : object_(object), root_(parent.root_), subject_(parent.subject_), path_(std::move(path) + ".") {}

bool ConfigReader::has(std::string_view key) const {
  if (!object_.is_object()) return false;
  const auto at = object_.find(key);
  return at != object_.end() && !at->is_null();
}

std::string ConfigReader::named(const char* key) const { return fmt::format("key '{}{}'", path_, key); }

const json* ConfigReader::take(const char* key, bool required) {
  read_.insert(key);
  if (has(key)) return &*object_.find(key);
  if (required) problem(fmt::format("{} is missing", named(key)));
  return nullptr;
}

void ConfigReader::wrong(const char* key, const json& found, const std::string& expected) {
  problem(fmt::format("{}: found {}, expected {}", named(key), shown(found), expected));
}

void ConfigReader::unhonoured(const char* key, const json& found, const std::string& expected) {
  unsupported(
      fmt::format("{}: found {}, but this engine honours only {}", named(key), shown(found), expected));
}

std::int64_t ConfigReader::integer(const char* key, std::int64_t lo, std::int64_t hi) {
  const json* value = take(key, true);
  if (value == nullptr) return lo;
  if (within(*value, lo, hi)) return value->get<std::int64_t>();
  wrong(key, *value, fmt::format("a whole number from {} to {}", lo, hi));
  return lo;
}

std::int64_t ConfigReader::integer_or(const char* key, std::int64_t fallback, std::int64_t lo,
                                      std::int64_t hi) {
  if (take(key, false) == nullptr) return fallback;
  return integer(key, lo, hi);
}

double ConfigReader::number(const char* key, double lo, double hi) {
  const json* value = take(key, true);
  if (value == nullptr) return lo;
  if (value->is_number()) {
    const auto number = value->get<double>();
    if (number >= lo && number <= hi) return number;
  }
  wrong(key, *value, fmt::format("a number from {} to {}", lo, hi));
  return lo;
}

double ConfigReader::number_or(const char* key, double fallback, double lo, double hi) {
  if (take(key, false) == nullptr) return fallback;
  return number(key, lo, hi);
}

bool ConfigReader::boolean_or(const char* key, bool fallback) {
  const json* value = take(key, false);
  if (value == nullptr) return fallback;
  if (value->is_boolean()) return value->get<bool>();
  wrong(key, *value, "true or false");
  return fallback;
}

std::string ConfigReader::string(const char* key) {
  const json* value = take(key, true);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  wrong(key, *value, "text");
  return {};
}

std::string ConfigReader::string_or(const char* key, const std::string& fallback) {
  if (take(key, false) == nullptr) return fallback;
  return string(key);
}

std::vector<std::int64_t> ConfigReader::integers(const char* key, std::size_t max_count, std::int64_t lo,
                                                 std::int64_t hi) {
  std::vector<std::int64_t> numbers;
  const json* value = take(key, true);
  if (value == nullptr) return numbers;
  bool good = value->is_array() && value->size() <= max_count;
  if (good) {
    for (const json& element : *value) good = good && within(element, lo, hi);
  }
  if (!good) {
    wrong(key, *value, list_of(max_count, lo, hi));
    return numbers;
  }
  for (const json& element : *value) numbers.push_back(element.get<std::int64_t>());
  return numbers;
}

std::vector<std::int64_t> ConfigReader::integers_or(const char* key, std::size_t max_count, std::int64_t lo,
                                                    std::int64_t hi) {
  if (take(key, false) == nullptr) return {};
  return integers(key, max_count, lo, hi);
}

std::vector<std::int64_t> ConfigReader::integer_or_list(const char* key, std::size_t max_count,
                                                        std::int64_t lo, std::int64_t hi) {
  const json* value = take(key, false);
  if (value == nullptr) return {};
  if (value->is_number_integer()) return {integer(key, lo, hi)};
  return integers(key, max_count, lo, hi);
}

void ConfigReader::must_be(const char* key, const char* expected) {
  const json* value = take(key, false);
  if (value != nullptr && *value != expected) unhonoured(key, *value, fmt::format("\"{}\"", expected));
}

void ConfigReader::must_be(const char* key, bool expected) {
  const json* value = take(key, false);
  if (value != nullptr && *value != expected) unhonoured(key, *value, expected ? "true" : "false");
}

void ConfigReader::must_be(const char* key, std::int64_t expected) {
  const json* value = take(key, false);
  if (value != nullptr && *value != expected) unhonoured(key, *value, fmt::format("{}", expected));
}

void ConfigReader::refuse(const char* key, const char* reason) {
  if (const json* value = take(key, false))
    unsupported(fmt::format("{}: found {}, but {}", named(key), shown(*value), reason));
}

void ConfigReader::ignore(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }

const json* ConfigReader::object(const char* key) {
  const json* value = take(key, false);
  if (value == nullptr || value->is_object()) return value;
  wrong(key, *value, "an object");
  return nullptr;
}

void ConfigReader::problem(std::string sentence) {
  root_->problems_.add(ErrorCode::kBadFile, std::move(sentence));
}

void ConfigReader::unsupported(std::string sentence) {
  root_->problems_.add(ErrorCode::kUnsupported, std::move(sentence));
}

void ConfigReader::no_other_keys() {
  if (!object_.is_object()) return;
  for (const auto& [key, value] : object_.items())
    if (read_.find(key) == read_.end())
      unsupported(fmt::format("key '{}{}' is not one this engine knows how to honour (its value is {})",
                              path_, key.substr(0, 80), shown(value)));
}

void ConfigReader::finish() {
  no_other_keys();
  problems_.throw_if_any(subject_);
}

std::string family_of_config(const json& config, const std::string& subject) {
  if (config.is_object())
    if (const auto type = config.find("model_type"); type != config.end() && type->is_string())
      return type->get<std::string>();
  throw Error(ErrorCode::kBadFile,
              fmt::format("{}: key 'model_type' is missing, and it names the family of the model", subject));
}

std::string config_text(const json& config) { return config.dump(2) + "\n"; }

json read_config_file(const std::string& path) {
  const MappedFile file = MappedFile::open(path);
  if (file.bytes() > kMaxConfigBytes)
    throw Error(ErrorCode::kBadFile, fmt::format("{}: is {} bytes long, more than a config can be ({})", path,
                                                 file.bytes(), kMaxConfigBytes));
  // Keys seen in each open object: nlohmann keeps the last of two equal keys in silence.
  std::vector<std::set<std::string, std::less<>>> open_objects;
  std::string complaint;
  const auto watch = [&](int depth, json::parse_event_t event, json& parsed) {
    if (depth > kMaxDepth && complaint.empty())
      complaint = fmt::format("is nested deeper than {} levels", kMaxDepth);
    if (event == json::parse_event_t::object_start) open_objects.emplace_back();
    if (event == json::parse_event_t::object_end) open_objects.pop_back();
    if (event == json::parse_event_t::key && !open_objects.back().insert(parsed.get<std::string>()).second &&
        complaint.empty())
      complaint = fmt::format("names key '{}' twice", parsed.get<std::string>().substr(0, 80));
    return true;
  };
  try {
    const auto* text = reinterpret_cast<const char*>(file.data());
    json config = json::parse(text, text + file.bytes(), watch);
    if (!complaint.empty()) throw Error(ErrorCode::kBadFile, fmt::format("{}: {}", path, complaint));
    return config;
  } catch (const json::exception& error) {
    std::string why = error.what();
    if (const std::size_t tag = why.find("] "); tag != std::string::npos) why.erase(0, tag + 2);
    throw Error(ErrorCode::kBadFile, fmt::format("{}: is not JSON ({})", path, why.substr(0, 200)));
  }
}

}  // namespace seekline
