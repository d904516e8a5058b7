// Where the block scales of a weight row lie, for code that is compiled once a level.
#pragma once

#include "formats/weight_view.h"
#include "kernels/simd.h"

namespace seekline::simd {

/// The scales of row r, as they lie; null where there are none. (WeightView::scales_of for code of one
/// level.)
SEEKLINE_SIMD const std::uint8_t* row_scales(const WeightView& w, std::int64_t r) {
  if (w.scale_kind == ScaleKind::kNone) return nullptr;
  const std::int64_t cols = (w.cols + w.block_cols - 1) / w.block_cols;
  return w.scales + r / w.block_rows * cols * (w.scale_kind == ScaleKind::kF32 ? 4 : 1);
}

}  // namespace seekline::simd
