#include "formats/weight_view.h"

#include <cstring>

#include "formats/elements.h"

namespace seekline {
namespace {

std::uint16_t half_at(const std::uint8_t* row, std::int64_t col) {
  std::uint16_t bits;
  std::memcpy(&bits, row + 2 * col, 2);
  return bits;
}

float element(const WeightView& w, const std::uint8_t* row, std::int64_t col) {
  switch (w.kind) {
    case WeightKind::kF32: {
      float value;
      std::memcpy(&value, row + 4 * col, 4);
      return value;
    }
    case WeightKind::kF16:
      return f16_to_f32(half_at(row, col));
    case WeightKind::kBF16:
      return bf16_to_f32(half_at(row, col));
    case WeightKind::kE4M3:
      return e4m3_to_f32(row[col]);
    case WeightKind::kE2M1:
      return e2m1_to_f32(static_cast<std::uint8_t>(row[col / 2] >> (col % 2 * 4)));
  }
  return 0;
}

}  // namespace

float weight_scale(const WeightView& w, std::int64_t row, std::int64_t col) {
  if (w.scale_kind == ScaleKind::kNone) return 1;
  const std::int64_t index = row / w.block_rows * w.scale_cols() + col / w.block_cols;
  if (w.scale_kind == ScaleKind::kUE8M0) return ue8m0_to_f32(w.scales[index]);
  float value;
  std::memcpy(&value, w.scales + 4 * index, 4);
  return value;
}

float weight_value(const WeightView& w, std::int64_t row, std::int64_t col) {
  const float value = element(w, w.row(row), col);
  return w.scale_kind == ScaleKind::kNone ? value : value * weight_scale(w, row, col);
}

void decode_weight_row(const WeightView& w, std::int64_t row, float* out) {
  const std::uint8_t* data = w.row(row);
  for (std::int64_t col = 0; col < w.cols; ++col) out[col] = element(w, data, col);
  if (w.scale_kind == ScaleKind::kNone) return;
  for (std::int64_t first = 0; first < w.cols; first += w.block_cols) {
    const float scale = weight_scale(w, row, first);
    for (std::int64_t col = first; col < w.cols && col < first + w.block_cols; ++col) out[col] *= scale;
  }
}

}  // namespace seekline
