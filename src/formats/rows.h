// Cache rows, one at a time: the truth for everything faster. Byte tables: docs/cache-formats.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "formats/quantizers.h"
#include "seekline/row_format.h"

namespace seekline {

/// How the bytes of a row divide: first `coded` channels in blocks of codes, then `plain` channels as they
/// are.
struct RowLayout {
  BlockQuantizer quantizer = BlockQuantizer::kNone;
  int coded = 0;              ///< channels that go through the quantizer
  int code_bits = 0;          ///< 8 (e4m3) or 4 (e2m1, the even channel in the low nibble)
  int blocks = 0;             ///< scales of the row
  int block_scale_bytes = 0;  ///< 1 (ue8m0, e4m3) or 4 (f32)
  int plain = 0;              ///< channels after the coded ones
  int plain_bytes = 0;        ///< bytes of one of them: 2 (bf16) or 4 (f32)

  int code_bytes() const { return coded * code_bits / 8; }
};
RowLayout row_layout(const RowFormat& format);

/// Why `format` cannot be used ("v4_fp8 needs ..."), or nothing if it can.
std::optional<std::string> row_format_problem(const RowFormat& format);

/// values[width] -> data[data_bytes], scale[scale_bytes].
void encode_row(const RowFormat& format, const float* values, std::uint8_t* data, std::uint8_t* scale);

/// data, scale -> out[width], the value that attention sees.
void decode_row(const RowFormat& format, const std::uint8_t* data, const std::uint8_t* scale, float* out);

}  // namespace seekline
