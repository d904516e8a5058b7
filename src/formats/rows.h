// Cache rows, one at a time: the truth for everything faster. Byte tables: docs/cache-formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "seekline/row_format.h"

namespace seekline {

/// Why `format` cannot be used ("v4_fp8 needs ..."), or nothing if it can.
std::optional<std::string> row_format_problem(const RowFormat& format);

/// values[width] -> data[data_bytes], scale[scale_bytes].
void encode_row(const RowFormat& format, const float* values, std::uint8_t* data, std::uint8_t* scale);

/// data, scale -> out[width], the value that attention sees.
void decode_row(const RowFormat& format, const std::uint8_t* data, const std::uint8_t* scale, float* out);

}  // namespace seekline
