// The tokenizers of the goldens, each loaded once.
#pragma once

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/tokenizer.h"

namespace seekline::golden {

inline std::string text_data(const std::string& name) {
  return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/text/" + name;
}

inline std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no golden file " + path);
  std::ostringstream all;
  all << in.rdbuf();
  return std::move(all).str();
}

inline std::vector<nlohmann::json> read_json_lines(const std::string& name) {
  std::istringstream in(read_file(text_data(name)));
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

inline const Tokenizer& tiny_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(text_data("tiny/tokenizer.json"));
  return tokenizer;
}

inline const Tokenizer& v4_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(text_data("deepseek-v4/tokenizer.json"));
  return tokenizer;
}

inline const Tokenizer& smollm2_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::load(text_data("smollm2/tokenizer.json"));
  return tokenizer;
}

/// V4.1's file is V4's with nine entries of added_tokens replaced (v41-delta.json).
inline nlohmann::json v41_tokenizer_json() {
  auto file = nlohmann::json::parse(read_file(text_data("deepseek-v4/tokenizer.json")));
  const auto delta = nlohmann::json::parse(read_file(text_data("deepseek-v4/v41-delta.json")));
  for (const auto& change : delta["changed"]) {
    for (auto& entry : file["added_tokens"]) {
      if (entry["id"] == change["id"]) entry.update(change["v41"]);
    }
  }
  return file;
}

inline const Tokenizer& v41_tokenizer() {
  static const Tokenizer tokenizer = Tokenizer::parse(v41_tokenizer_json().dump(), "V4.1");
  return tokenizer;
}

}  // namespace seekline::golden
