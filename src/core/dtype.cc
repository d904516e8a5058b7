#include "core/dtype.h"

#include <array>
#include <utility>

namespace seekline {
namespace {

struct Entry {
  DType dtype;
  std::string_view name;
  std::size_t bytes;
};

constexpr std::array<Entry, 9> kEntries{{{DType::kF32, "F32", 4},
                                         {DType::kF16, "F16", 2},
                                         {DType::kBF16, "BF16", 2},
                                         {DType::kF8E4M3, "F8_E4M3", 1},
                                         {DType::kF8E8M0, "F8_E8M0", 1},
                                         {DType::kI8, "I8", 1},
                                         {DType::kU8, "U8", 1},
                                         {DType::kI32, "I32", 4},
                                         {DType::kI64, "I64", 8}}};

const Entry& entry(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::size_t dtype_bytes(DType dtype) { return entry(dtype).bytes; }
std::string_view dtype_name(DType dtype) { return entry(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Entry& e : kEntries)
    if (e.name == name) return e.dtype;
  return std::nullopt;
}

}  // namespace seekline
