#include "formats/rows.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "formats/elements.h"

namespace seekline {
namespace {

RowLayout coded_layout(BlockQuantizer quantizer, int coded, int code_bits, int block_scale_bytes, int tail) {
  const int block = quantizer_block(quantizer);
  return {quantizer, coded, code_bits, (coded + block - 1) / block, block_scale_bytes, tail, 2};
}

void encode_block(const RowLayout& layout, int index, const QuantizedBlock& block, int count,
                  std::uint8_t* data, std::uint8_t* scale) {
  const int first = index * quantizer_block(layout.quantizer);
  if (layout.code_bits == 4) {
    for (int i = 0; i < count; i += 2)
      data[(first + i) / 2] = static_cast<std::uint8_t>(block.codes[i] | block.codes[i + 1] << 4);
  } else {
    std::memcpy(data + first, block.codes, static_cast<std::size_t>(count));
  }
  if (layout.block_scale_bytes == 4) {
    std::memcpy(scale + 4 * index, &block.scale, 4);
  } else {
    scale[index] = block.scale_code;
  }
}

float block_scale(const RowLayout& layout, int index, const std::uint8_t* scale) {
  if (layout.block_scale_bytes == 4) {
    float value;
    std::memcpy(&value, scale + 4 * index, 4);
    return value;
  }
  return layout.quantizer == BlockQuantizer::kFp4Block16 ? e4m3_to_f32(scale[index])
                                                         : ue8m0_to_f32(scale[index]);
}

float coded_value(const RowLayout& layout, int channel, const std::uint8_t* data) {
  if (layout.code_bits == 8) return e4m3_to_f32(data[channel]);
  return e2m1_to_f32(static_cast<std::uint8_t>(data[channel / 2] >> (channel % 2 * 4)));
}

}  // namespace

RowLayout row_layout(const RowFormat& format) {
  const int coded = format.width - format.tail;
  const BlockQuantizer fp8_128 =
      format.pow2_scales ? BlockQuantizer::kFp8Block128 : BlockQuantizer::kFp8Block128F32;
  switch (format.kind) {
    case RowKind::kF32:
      return {.plain = format.width, .plain_bytes = 4};
    case RowKind::kBF16:
      return {.plain = format.width, .plain_bytes = 2};
    case RowKind::kMlaFp8:
    case RowKind::kIndexFp8:
      return coded_layout(fp8_128, coded, 8, 4, format.tail);
    case RowKind::kV4Fp8:
      return coded_layout(BlockQuantizer::kFp8Block64, coded, 8, 1, format.tail);
    case RowKind::kV41Fp8:
      return coded_layout(BlockQuantizer::kFp8Block32, coded, 8, 1, 0);
    case RowKind::kV41Fp4:
      return coded_layout(BlockQuantizer::kFp4Block16, coded, 4, 1, 0);
    case RowKind::kIndexFp4:
      return coded_layout(BlockQuantizer::kFp4Block32, coded, 4, 1, 0);
  }
  return {};
}

std::optional<std::string> row_format_problem(const RowFormat& format) {
  constexpr int kWidest = 65536;
  if (format.width <= 0 || format.width > kWidest)
    return fmt::format("{} has a width outside 1 to {}", format.name(), kWidest);
  const bool has_tail = format.kind == RowKind::kMlaFp8 || format.kind == RowKind::kV4Fp8;
  if (format.tail < 0 || format.tail > format.width || (format.tail != 0 && !has_tail))
    return fmt::format("{} cannot keep its last {} channels as bf16", format.name(), format.tail);
  if (format.pow2_scales && format.kind != RowKind::kMlaFp8 && format.kind != RowKind::kIndexFp8)
    return fmt::format("{} has no f32 scales that could be powers of two", format.name());
  const RowLayout layout = row_layout(format);
  // A block of the f32-scale formats may be cut short by the row's end; the others divide evenly.
  const int grain = layout.block_scale_bytes == 1 ? quantizer_block(layout.quantizer) : 1;
  if (layout.coded % grain != 0)
    return fmt::format("{} needs its {} quantized channels to be a multiple of {}", format.name(),
                       layout.coded, grain);
  return std::nullopt;
}

void encode_row(const RowFormat& format, const float* values, std::uint8_t* data, std::uint8_t* scale) {
  const RowLayout layout = row_layout(format);
  const int block_size = quantizer_block(layout.quantizer);
  std::memset(scale, 0, static_cast<std::size_t>(format.scale_bytes()));
  for (int b = 0; b < layout.blocks; ++b) {
    const int first = b * block_size, count = std::min(block_size, layout.coded - first);
    const QuantizedBlock block =
        quantize_block(layout.quantizer, {values + first, static_cast<std::size_t>(count)});
    encode_block(layout, b, block, count, data, scale);
  }
  std::uint8_t* plain = data + layout.code_bytes();
  for (int i = 0; i < layout.plain; ++i) {
    const float value = values[layout.coded + i];
    if (layout.plain_bytes == 4) {
      std::memcpy(plain + 4 * i, &value, 4);
    } else {
      const std::uint16_t bits = f32_to_bf16(value);
      std::memcpy(plain + 2 * i, &bits, 2);
    }
  }
}

void decode_row(const RowFormat& format, const std::uint8_t* data, const std::uint8_t* scale, float* out) {
  const RowLayout layout = row_layout(format);
  const int block_size = quantizer_block(layout.quantizer);
  for (int b = 0; b < layout.blocks; ++b) {
    const float s = block_scale(layout, b, scale);
    const int end = std::min((b + 1) * block_size, layout.coded);
    for (int i = b * block_size; i < end; ++i) out[i] = coded_value(layout, i, data) * s;
  }
  const std::uint8_t* plain = data + layout.code_bytes();
  for (int i = 0; i < layout.plain; ++i) {
    if (layout.plain_bytes == 4) {
      std::memcpy(out + layout.coded + i, plain + 4 * i, 4);
    } else {
      std::uint16_t bits;
      std::memcpy(&bits, plain + 2 * i, 2);
      out[layout.coded + i] = bf16_to_f32(bits);
    }
  }
}

}  // namespace seekline
