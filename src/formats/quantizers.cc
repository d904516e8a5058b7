#include "formats/quantizers.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.h"
#include "formats/elements.h"

namespace seekline {
namespace {

float largest_magnitude(std::span<const float> values) {
  float a = 0;
  for (float v : values) a = std::max(a, std::fabs(v));
  return a;
}

bool is_fp4(BlockQuantizer quantizer) {
  return quantizer == BlockQuantizer::kFp4Block32 || quantizer == BlockQuantizer::kFp4Block16;
}

/// Sets the scale of a block whose largest magnitude is `a`.
void choose_scale(BlockQuantizer quantizer, float a, QuantizedBlock& block) {
  switch (quantizer) {
    case BlockQuantizer::kFp8Block32:
    case BlockQuantizer::kFp8Block64:
    case BlockQuantizer::kFp8Block128:
      block.scale_code = ue8m0_ceil(std::max(a, 1e-4f) / 448.0f);
      block.scale = ue8m0_to_f32(block.scale_code);
      return;
    case BlockQuantizer::kFp8Block128F32:
      // A product, as in the released kernel: a division gives another last bit for half of all inputs.
      block.scale_code = 0;
      block.scale = std::max(a, 1e-4f) * (1.0f / 448.0f);
      return;
    case BlockQuantizer::kFp4Block32:
      block.scale_code = ue8m0_ceil(std::max(a, 6 * 0x1p-126f) / 6.0f);
      block.scale = ue8m0_to_f32(block.scale_code);
      return;
    case BlockQuantizer::kFp4Block16:
      block.scale_code = f32_to_e4m3(std::max(a, 6 * 0x1p-9f) / 6.0f);
      block.scale = e4m3_to_f32(block.scale_code);
      return;
    case BlockQuantizer::kNone:
      break;
  }
  SEEKLINE_CHECK(false, "a quantizer without blocks has no scale");
}

}  // namespace

int quantizer_block(BlockQuantizer quantizer) {
  switch (quantizer) {
    case BlockQuantizer::kNone:
      return 1;
    case BlockQuantizer::kFp4Block16:
      return 16;
    case BlockQuantizer::kFp8Block32:
    case BlockQuantizer::kFp4Block32:
      return 32;
    case BlockQuantizer::kFp8Block64:
      return 64;
    case BlockQuantizer::kFp8Block128:
    case BlockQuantizer::kFp8Block128F32:
      return 128;
  }
  return 1;
}

QuantizedBlock quantize_block(BlockQuantizer quantizer, std::span<const float> in) {
  SEEKLINE_CHECK(in.size() <= static_cast<std::size_t>(quantizer_block(quantizer)),
                 "more values than a block holds");
  QuantizedBlock block;
  choose_scale(quantizer, largest_magnitude(in), block);
  // The encoders saturate, which is the clamp to +-448 and +-6 of the definition.
  for (std::size_t i = 0; i < in.size(); ++i) {
    const float scaled = in[i] / block.scale;
    block.codes[i] = is_fp4(quantizer) ? f32_to_e2m1(scaled) : f32_to_e4m3(scaled);
  }
  return block;
}

void quantize_values(BlockQuantizer quantizer, std::span<const float> in, std::span<float> out) {
  SEEKLINE_CHECK(in.size() == out.size(), "a quantizer keeps the number of values");
  if (quantizer == BlockQuantizer::kNone) {
    if (out.data() != in.data()) std::copy(in.begin(), in.end(), out.begin());
    return;
  }
  const auto block_size = static_cast<std::size_t>(quantizer_block(quantizer));
  for (std::size_t first = 0; first < in.size(); first += block_size) {
    const std::size_t count = std::min(block_size, in.size() - first);
    const QuantizedBlock block = quantize_block(quantizer, in.subspan(first, count));
    for (std::size_t i = 0; i < count; ++i) {
      const float value = is_fp4(quantizer) ? e2m1_to_f32(block.codes[i]) : e4m3_to_f32(block.codes[i]);
      out[first + i] = value * block.scale;
    }
  }
}

}  // namespace seekline
