// The header of a safetensors file: eight bytes of length, that many bytes of JSON, then the tensors without
// gaps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/problem_list.h"
#include "core/dtype.h"

namespace seekline {

/// One entry of a header, checked by itself: its range is as long as dtype and shape say.
struct HeaderEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  ///< bytes from the start of the tensor data
};

struct SafetensorsHeader {
  std::vector<HeaderEntry> entries;  ///< in order of `begin`
  std::int64_t data_start = 0;       ///< of the tensor data in the file
};

constexpr std::int64_t kMaxHeaderBytes = 100'000'000;

/// Reads the header of a file of `file_bytes` bytes that starts at `data`; touches the header only. What is
/// wrong goes to `problems`, each sentence beginning with `file`: a header that is too long or no JSON,
/// entries with unknown dtypes or lying ranges, duplicate names, overlaps, gaps, missing or surplus bytes at
/// the end.
SafetensorsHeader read_safetensors_header(const std::uint8_t* data, std::int64_t file_bytes,
                                          const std::string& file, ProblemList& problems);

/// Elements of a shape, or -1 where the product does not fit in 63 bits.
std::int64_t element_count(const std::vector<std::int64_t>& shape);
/// "[129280, 5120]"
std::string shape_text(const std::vector<std::int64_t>& shape);
/// `name` in quotes, cut to a length that fits in a sentence and without control characters.
std::string in_quotes(std::string_view name);

}  // namespace seekline
