// Checkpoints that tests write, and goldens that they break.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_mla.h"
#include "checkpoint/deepseek_v4.h"
#include "checkpoint/deepseek_v41.h"
#include "checkpoint/llama.h"
#include "core/temp_folder.h"
#include "seekline/error.h"

namespace seekline::testing {

namespace fs = std::filesystem;
using nlohmann::json;

inline fs::path golden_model(const std::string& name) {
  return fs::path(SEEKLINE_SOURCE_DIR) / "tests/golden/data/models" / name;
}

inline std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

inline std::string length_of(std::uint64_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i) text += static_cast<char>(bytes >> (8 * i) & 0xff);
  return text;
}

/// A safetensors file in pieces: any header text, any data.
struct SafetensorsFile {
  json header;
  std::string data;

  static SafetensorsFile read(const fs::path& path) {
    const std::string bytes = read_bytes(path);
    std::uint64_t length = 0;
    for (unsigned i = 0; i < 8; ++i) length |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return {nlohmann::json::parse(bytes.substr(8, length)), bytes.substr(8 + length)};
  }
  std::string bytes() const { return length_of(header.dump().size()) + header.dump() + data; }

  /// Puts a tensor at the end.
  void add(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
           const std::string& content) {
    header[name] = {
        {"dtype", dtype}, {"shape", shape}, {"data_offsets", {data.size(), data.size() + content.size()}}};
    data += content;
  }
  /// Takes a tensor out, its bytes included.
  void remove(const std::string& name) {
    const std::size_t begin = header[name]["data_offsets"][0], end = header[name]["data_offsets"][1];
    data.erase(begin, end - begin);
    header.erase(name);
    for (auto& [key, entry] : header.items()) {
      if (key == "__metadata__") continue;
      for (auto& offset : entry["data_offsets"])
        if (offset.get<std::size_t>() >= end) offset = offset.get<std::size_t>() - (end - begin);
    }
  }
  char& byte(const std::string& name, std::size_t at) {
    return data[header[name]["data_offsets"][0].get<std::size_t>() + at];
  }
};

/// Opens a folder, parses its config and takes all weights; returns what stayed unused.
inline std::vector<WeightSet::Unused> load_everything(const fs::path& folder) {
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const auto config = read_config_file((folder / "config.json").string());
  WeightSet set(checkpoint);
  const std::string family = family_of_config(config, "config.json");
  if (family == "llama") {
    load_llama_weights(parse_llama_config(config, "config.json"), set);
  } else if (family == "deepseek_v41") {
    load_v41_weights(parse_v41_config(config, "config.json"), set);
  } else if (family == "deepseek_v4") {
    load_v4_weights(parse_v4_config(config, "config.json"), set);
  } else {
    load_mla_weights(parse_mla_config(config, "config.json"), set);
  }
  return set.finish();
}

/// The error that `action` throws; fails where it throws none.
inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return Error(ErrorCode::kInternal, "nothing was thrown");
}

}  // namespace seekline::testing
