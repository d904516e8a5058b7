#include "checkpoint/safetensors_writer.h"

#include <cerrno>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/check.h"
#include "seekline/error.h"

namespace seekline {

void SafetensorsWriter::add(const std::string& name, std::vector<std::int64_t> shape,
                            const std::vector<float>& values) {
  add_bytes(name, DType::kF32, std::move(shape), values.data(), values.size() * sizeof(float));
}

void SafetensorsWriter::add(const std::string& name, std::vector<std::int64_t> shape,
                            const std::vector<std::int32_t>& values) {
  add_bytes(name, DType::kI32, std::move(shape), values.data(), values.size() * sizeof(std::int32_t));
}

void SafetensorsWriter::add_bytes(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                                  const void* data, std::size_t bytes) {
  std::int64_t elements = 1;
  for (const std::int64_t n : shape) elements *= n;
  SEEKLINE_CHECK(static_cast<std::size_t>(elements) * dtype_bytes(dtype) == bytes,
                 "shape of a tensor to be written");
  entries_[name] = {dtype, std::move(shape), std::string(static_cast<const char*>(data), bytes)};
}

namespace {

// Where the bytes go until they are whole. What is no regular file (a device, a pipe) is written as it is.
std::filesystem::path partial_of(const std::filesystem::path& path) {
  std::error_code ignored;
  const bool special =
      std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored);
  return special ? path : std::filesystem::path(path.string() + ".partial");
}

[[noreturn]] void refuse(const std::filesystem::path& path) {
  throw Error(ErrorCode::kIo, fmt::format("{} cannot be written ({})", path.string(), std::strerror(errno)));
}

}  // namespace

void SafetensorsWriter::check_place(const std::filesystem::path& path) {
  const std::filesystem::path partial = partial_of(path);
  if (!std::ofstream(partial, std::ios::app)) refuse(path);
  std::error_code ignored;
  if (partial != path) std::filesystem::remove(partial, ignored);
}

void SafetensorsWriter::write(const std::filesystem::path& path) const {
  nlohmann::json header = nlohmann::json::object();
  std::size_t offset = 0;
  for (const auto& [name, entry] : entries_) {
    header[name] = {{"dtype", dtype_name(entry.dtype)},
                    {"shape", entry.shape},
                    {"data_offsets", {offset, offset + entry.bytes.size()}}};
    offset += entry.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const std::filesystem::path partial = partial_of(path);
  {
    std::ofstream out(partial, std::ios::binary | std::ios::trunc);
    const std::uint64_t length = text.size();
    out.write(reinterpret_cast<const char*>(&length), sizeof length);  // little-endian, as the CPUs we run on
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    for (const auto& [name, entry] : entries_)
      out.write(entry.bytes.data(), static_cast<std::streamsize>(entry.bytes.size()));
    out.close();
    if (!out) refuse(path);
  }
  if (partial == path) return;
  std::error_code failed;
  std::filesystem::rename(partial, path, failed);
  if (failed)
    throw Error(ErrorCode::kIo, fmt::format("{} cannot be renamed to {}: {}", partial.string(), path.string(),
                                            failed.message()));
}

}  // namespace seekline
