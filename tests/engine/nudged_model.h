// A golden model whose f32 parameters are moved by one unit in the last place: a second evaluation at
// rounding distance.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <nlohmann/json.hpp>

#include "core/temp_folder.h"
#include "golden/safetensors_lite.h"

namespace seekline::golden {

/// Each f32 value by up to `units` up or down; vectors stored as bf16 (norms) are widened first.
inline void nudge(LiteTensor& tensor, std::uint32_t units, std::mt19937& random) {
  std::vector<std::uint32_t> bits;
  if (tensor.dtype == "F32") {
    bits = tensor.as<std::uint32_t>();
  } else if (tensor.dtype == "BF16" && tensor.shape.size() == 1) {
    for (const std::uint16_t half : tensor.as<std::uint16_t>()) bits.push_back(std::uint32_t{half} << 16);
    tensor.dtype = "F32";
  } else {
    return;
  }
  for (std::uint32_t& b : bits)
    if ((b & 0x7fffffffu) != 0) b += static_cast<std::uint32_t>(random() % (2 * units + 1)) - units;
  tensor.bytes.resize(bits.size() * sizeof(std::uint32_t));
  std::memcpy(tensor.bytes.data(), bits.data(), tensor.bytes.size());
}

/// RoPE bases by up to 2^-23 of themselves: less than the rounding of an f32 angle does at some tens of
/// positions.
inline void nudge_rope(nlohmann::json& config, std::mt19937& random) {
  for (auto& [key, value] : config.items()) {
    if (value.is_object()) nudge_rope(value, random);
    if (key.ends_with("rope_theta") && value.is_number())
      value = value.get<double>() * (1 + 0x1p-23 * (static_cast<double>(random()) * 0x1p-31 - 1));
  }
}

class NudgedModel {
 public:
  NudgedModel(const std::string& source, std::uint32_t units, unsigned seed) {
    namespace fs = std::filesystem;
    for (const auto& entry : fs::directory_iterator(source)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("tokenizer")) fs::copy_file(entry.path(), folder_ / name);
    }
    std::mt19937 random(seed);
    std::ifstream config_file(source + "/config.json");
    nlohmann::json config = nlohmann::json::parse(config_file);
    nudge_rope(config, random);
    std::ofstream(folder_ / "config.json") << config;
    const SafetensorsLite model(source + "/model.safetensors");
    nlohmann::json header = nlohmann::json::object();
    std::vector<std::uint8_t> data;
    for (auto [name, tensor] : model.tensors()) {
      nudge(tensor, units, random);
      header[name] = {{"dtype", tensor.dtype},
                      {"shape", tensor.shape},
                      {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
      data.insert(data.end(), tensor.bytes.begin(), tensor.bytes.end());
    }
    const std::string text = header.dump();
    const std::uint64_t length = text.size();
    std::ofstream out(folder_ / "model.safetensors", std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof length);
    out << text;
    out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  }

  std::string folder() const { return folder_.path(); }

 private:
  const TempFolder folder_;
};

}  // namespace seekline::golden
