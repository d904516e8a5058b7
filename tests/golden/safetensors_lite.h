// A reader of small safetensors files for tests: the whole file in memory, tensors copied out by name.
// It checks nothing beyond what a test needs; the engine's own reader is checkpoint/checkpoint.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace seekline::golden {

struct LiteTensor {
  std::string dtype;  ///< as spelled in the file: "F32", "U8", ...
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> bytes;

  std::int64_t rows() const { return shape.empty() ? 1 : shape.front(); }
  std::int64_t cols() const { return shape.empty() ? 1 : shape.back(); }

  /// The elements as T; the file's element size must be sizeof(T).
  template <typename T>
  std::vector<T> as() const {
    std::int64_t count = 1;
    for (std::int64_t n : shape) count *= n;
    if (static_cast<std::size_t>(count) * sizeof(T) != bytes.size())
      throw std::runtime_error("a golden tensor of dtype " + dtype + " was read as another element size");
    std::vector<T> values(static_cast<std::size_t>(count));
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

class SafetensorsLite {
 public:
  explicit SafetensorsLite(const std::string& path) : path_(path) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t header_bytes = 0;
    file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes);
    if (!file) throw std::runtime_error("no golden file " + path);
    std::string text(header_bytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(header_bytes));
    const auto header = nlohmann::json::parse(text);
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      LiteTensor& tensor = tensors_[name];
      tensor.dtype = entry.at("dtype").get<std::string>();
      tensor.shape = entry.at("shape").get<std::vector<std::int64_t>>();
      const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
      const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
      tensor.bytes.resize(end - begin);
      file.seekg(static_cast<std::streamoff>(8 + header_bytes + begin));
      file.read(reinterpret_cast<char*>(tensor.bytes.data()), static_cast<std::streamsize>(end - begin));
      if (!file) throw std::runtime_error("golden file " + path + " ends inside " + name);
    }
  }

  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  const LiteTensor& at(const std::string& name) const {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) throw std::runtime_error("no tensor " + name + " in " + path_);
    return found->second;
  }
  const std::map<std::string, LiteTensor>& tensors() const { return tensors_; }

 private:
  std::string path_;
  std::map<std::string, LiteTensor> tensors_;
};

}  // namespace seekline::golden
