#include "checkpoint/scale_check.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

namespace seekline {
namespace {

bool is_f32_scale(const Tensor& tensor) {
  return tensor.dtype == DType::kF32 && tensor.name.ends_with(".weight_scale_inv");
}

// Index of the first scale that is no finite number, or -1.
std::int64_t first_bad(const Tensor& tensor) {
  if (tensor.dtype == DType::kF8E8M0) {
    const void* at = std::memchr(tensor.data, 0xFF, static_cast<std::size_t>(tensor.bytes));
    return at == nullptr ? -1 : static_cast<const std::uint8_t*>(at) - tensor.data;
  }
  for (std::int64_t i = 0; i < tensor.bytes / 4; ++i) {
    float value = 0;
    std::memcpy(&value, tensor.data + i * 4, 4);
    if (!std::isfinite(value)) return i;
  }
  return -1;
}

}  // namespace

std::int64_t scale_bytes(const Checkpoint& checkpoint) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : checkpoint.tensors())
    if (tensor.dtype == DType::kF8E8M0 || is_f32_scale(tensor)) bytes += tensor.bytes;
  return bytes;
}

std::vector<std::string> find_bad_scales(const Checkpoint& checkpoint) {
  std::vector<std::string> sentences;
  for (const Tensor& tensor : checkpoint.tensors()) {
    if (tensor.bytes == 0 || (tensor.dtype != DType::kF8E8M0 && !is_f32_scale(tensor))) continue;
    if (const std::int64_t at = first_bad(tensor); at >= 0)
      sentences.push_back(
          fmt::format("tensor '{}' in {}: scale {} is not a finite number, so its block of weights is not "
                      "either",
                      tensor.name, checkpoint.file_name(tensor), at));
  }
  return sentences;
}

}  // namespace seekline
