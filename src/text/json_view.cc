#include "text/json_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace seekline {
namespace {

std::string shown_value(const nlohmann::json& value) {
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  constexpr std::size_t kLength = 40;
  const std::string text = value.dump(-1, ' ', true);
  return text.size() <= kLength ? text : text.substr(0, kLength) + "...";
}

}  // namespace

void JsonView::fail(ErrorCode code, const std::string& why) const {
  throw Error(
      code, path_.empty() ? fmt::format("{}: {}", file_, why) : fmt::format("{}: {}: {}", file_, path_, why));
}

std::string JsonView::shown() const { return shown_value(*value_); }

void JsonView::expect(bool right, const char* expected) const {
  if (!right) bad(fmt::format("found {}, expected {}", shown(), expected));
}

bool JsonView::has(const char* key) const {
  expect(value_->is_object(), "an object");
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonView JsonView::member(const char* key) const {
  expect(value_->is_object(), "an object");
  const auto found = value_->find(key);
  if (found == value_->end()) bad(fmt::format("\"{}\" is missing", key));
  const std::string quoted = shown_value(key);  // plain unless it needs escapes or is long
  const std::string name = quoted.size() == std::string_view(key).size() + 2 ? key : quoted;
  return {*found, file_, path_.empty() ? name : fmt::format("{}.{}", path_, name)};
}

std::vector<JsonView> JsonView::elements() const {
  expect(value_->is_array(), "a list");
  std::vector<JsonView> result;
  result.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    result.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", path_, i));
  return result;
}

void JsonView::only(std::initializer_list<const char*> keys) const {
  expect(value_->is_object(), "an object");
  for (const auto& [key, value] : value_->items()) {
    const bool known =
        std::any_of(keys.begin(), keys.end(), [&key = key](const char* k) { return key == k; });
    if (!known) unsupported(fmt::format("{} is not something this tokenizer can honour", shown_value(key)));
  }
}

const std::string& JsonView::string() const {
  expect(value_->is_string(), "a string");
  return value_->get_ref<const std::string&>();
}

bool JsonView::boolean() const {
  expect(value_->is_boolean(), "true or false");
  return value_->get<bool>();
}

std::int32_t JsonView::id() const {
  const bool right = value_->is_number_unsigned() && value_->get<std::uint64_t>() < INT32_MAX;
  expect(right, "a token id, an integer from 0 to 2147483646");
  return value_->get<std::int32_t>();
}

void JsonView::must_be(const char* key, const nlohmann::json& expected) const {
  if (!has(key) || (*value_)[key] == expected) return;
  unsupported(fmt::format("\"{}\" is {}, and only {} is supported", key, shown_value((*value_)[key]),
                          shown_value(expected)));
}

nlohmann::json parse_json(const std::string& text, const std::string& name) {
  // The parser keeps the last of two equal keys; here that is a mistake in the file.
  std::vector<std::unordered_set<std::string>> open_objects;
  std::string twice;
  using Event = nlohmann::json::parse_event_t;
  const auto watch = [&](int, Event event, nlohmann::json& parsed) {
    if (event == Event::object_start) open_objects.emplace_back();
    if (event == Event::object_end) open_objects.pop_back();
    if (event == Event::key && !open_objects.back().insert(parsed.get_ref<const std::string&>()).second) {
      twice = shown_value(parsed);
    }
    return true;
  };
  nlohmann::json result;
  try {
    result = nlohmann::json::parse(text, watch);
  } catch (const nlohmann::json::parse_error& error) {
    throw Error(ErrorCode::kBadFile,
                fmt::format("{}: not valid JSON in UTF-8 (byte {} of {})", name, error.byte, text.size()));
  } catch (const nlohmann::json::exception&) {  // a number that no double holds
    throw Error(ErrorCode::kBadFile, fmt::format("{}: a number is out of range", name));
  }
  if (!twice.empty())
    throw Error(ErrorCode::kBadFile, fmt::format("{}: the key {} appears twice", name, twice));
  return result;
}

}  // namespace seekline
