#include "app/config_file.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "seekline/error.h"

namespace seekline {
namespace {

std::string text_of(const nlohmann::json& value, const std::string& place) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number()) return value.dump();
  throw Error(ErrorCode::kBadFile,
              fmt::format("{} is {}; it must be a string, a number, true or false, or a list of them", place,
                          value.type_name()));
}

std::vector<CLI::ConfigItem> items_of_json(const std::string& text, const std::string& path) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw Error(ErrorCode::kBadFile, path + " is not a JSON object");
  std::vector<CLI::ConfigItem> items;
  for (const auto& [key, value] : json.items()) {
    CLI::ConfigItem item;
    item.name = key;
    const std::string place = path + ": " + key;
    if (value.is_array()) {
      for (const auto& one : value) item.inputs.push_back(text_of(one, place));
    } else {
      item.inputs.push_back(text_of(value, place));
    }
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<CLI::ConfigItem> items_of_toml(const std::string& text, const std::string& path) {
  std::istringstream in(text);
  try {
    return CLI::ConfigTOML().from_config(in);
  } catch (const CLI::Error& error) {
    throw Error(ErrorCode::kBadFile, fmt::format("{} is not TOML: {}", path, error.what()));
  }
}

}  // namespace

void read_config_options(CLI::App& command, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(ErrorCode::kNotFound, path + " cannot be opened");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool is_json = first != std::string::npos && text[first] == '{';
  for (CLI::ConfigItem& item : is_json ? items_of_json(text, path) : items_of_toml(text, path)) {
    std::string name = item.name;
    std::replace(name.begin(), name.end(), '_', '-');
    CLI::Option* option = item.parents.empty() ? command.get_option_no_throw("--" + name) : nullptr;
    if (option == nullptr || name == "config" || name == "help")
      throw Error(ErrorCode::kBadFile,
                  fmt::format("{}: {} is not an option of {}", path, item.fullname(), command.get_name()));
    if (option->count() > 0) continue;
    try {
      for (const std::string& input : item.inputs) option->add_result(input);
      option->run_callback();
    } catch (const CLI::Error& error) {
      throw Error(ErrorCode::kBadFile, fmt::format("{}: {}: {}", path, item.name, error.what()));
    }
  }
}

}  // namespace seekline
