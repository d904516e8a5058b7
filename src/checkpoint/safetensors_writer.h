// Writes small safetensors files from memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace seekline {

/// Collects tensors and writes them as one file, in order of name.
class SafetensorsWriter {
 public:
  void add(const std::string& name, std::vector<std::int64_t> shape, const std::vector<float>& values);
  void add(const std::string& name, std::vector<std::int64_t> shape, const std::vector<std::int32_t>& values);

  /// Finds out early whether `path` can be written, before the work that fills the file. Throws Error(kIo).
  static void check_place(const std::filesystem::path& path);
  /// Writes beside `path` first and renames, so that a file is whole or absent. Throws Error(kIo).
  void write(const std::filesystem::path& path) const;

 private:
  struct Entry {
    DType dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };
  void add_bytes(const std::string& name, DType dtype, std::vector<std::int64_t> shape, const void* data,
                 std::size_t bytes);
  std::map<std::string, Entry> entries_;
};

}  // namespace seekline
