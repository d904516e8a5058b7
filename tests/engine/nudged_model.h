// A golden model whose f32 parameters are moved by one unit in the last place: a second evaluation at
// rounding distance.
#pragma once

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "golden/safetensors_lite.h"

namespace seekline::golden {

/// Each f32 value up, down or as it was, by chance; vectors stored as bf16 (norms) are widened first.
inline void nudge(LiteTensor& tensor, std::mt19937& random) {
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
    if ((b & 0x7fffffffu) != 0) b += static_cast<std::uint32_t>(random() % 3) - 1u;
  tensor.bytes.resize(bits.size() * sizeof(std::uint32_t));
  std::memcpy(tensor.bytes.data(), bits.data(), tensor.bytes.size());
}

/// Lives in the system's temporary folder for as long as the object.
class NudgedModel {
 public:
  NudgedModel(const std::string& source, unsigned seed) {
    namespace fs = std::filesystem;
    folder_ = fs::temp_directory_path() /
              ("seekline-nudged-" + std::to_string(getpid()) + "-" + std::to_string(seed));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    for (const auto& entry : fs::directory_iterator(source)) {
      const std::string name = entry.path().filename();
      if (name == "config.json" || name.starts_with("tokenizer")) fs::copy_file(entry.path(), folder_ / name);
    }
    const SafetensorsLite model(source + "/model.safetensors");
    std::mt19937 random(seed);
    nlohmann::json header = nlohmann::json::object();
    std::vector<std::uint8_t> data;
    for (auto [name, tensor] : model.tensors()) {
      nudge(tensor, random);
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
  ~NudgedModel() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  NudgedModel(const NudgedModel&) = delete;
  NudgedModel& operator=(const NudgedModel&) = delete;

  std::string folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace seekline::golden
