// Element types of tensors in checkpoints.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace seekline {

enum class DType : std::uint8_t { kF32, kF16, kBF16, kF8E4M3, kF8E8M0, kI8, kU8, kI32, kI64 };

/// Bytes of one stored element. I8 in an expert weight holds two e2m1 codes; it is still one byte here.
std::size_t dtype_bytes(DType dtype);
/// The safetensors spelling, such as "BF16" or "F8_E4M3".
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace seekline
