// A weight matrix as it lies in a released file: codes, block scales, shape. A view; it never owns.
#pragma once

#include <cstdint>

namespace seekline {

enum class WeightKind : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kE4M3,  ///< one byte a weight, block scales
  kE2M1,  ///< two weights a byte, the even column in the low nibble, block scales
};

enum class ScaleKind : std::uint8_t { kNone, kUE8M0, kF32 };

/// W [rows (out), cols (in)], row-major. The scale of W[r, c] is
/// scales[(r / block_rows) * scale_cols + c / block_cols].
struct WeightView {
  WeightKind kind = WeightKind::kBF16;
  ScaleKind scale_kind = ScaleKind::kNone;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scales = nullptr;
  int block_rows = 0;  ///< 32 (V4.1 dense), 128 (V3, V4 dense), 1 (experts, Engram table); 0 without scales
  int block_cols = 0;  ///< 32 or 128

  bool empty() const { return data == nullptr; }
  std::int64_t row_bytes() const {
    switch (kind) {
      case WeightKind::kF32:
        return cols * 4;
      case WeightKind::kF16:
      case WeightKind::kBF16:
        return cols * 2;
      case WeightKind::kE4M3:
        return cols;
      case WeightKind::kE2M1:
        return cols / 2;
    }
    return 0;
  }
  std::int64_t scale_cols() const { return block_cols == 0 ? 0 : (cols + block_cols - 1) / block_cols; }
  std::int64_t scale_rows() const { return block_rows == 0 ? 0 : (rows + block_rows - 1) / block_rows; }
  int bytes_of_scale() const {
    return scale_kind == ScaleKind::kF32 ? 4 : scale_kind == ScaleKind::kUE8M0 ? 1 : 0;
  }
  std::int64_t scale_bytes() const { return scale_rows() * scale_cols() * bytes_of_scale(); }
  /// Weights and scales: what a product over all rows reads.
  std::int64_t bytes() const { return rows * row_bytes() + scale_bytes(); }
  /// Of a table that is read a row here and there: most of a large one is on the disk alone, even where there
  /// is memory for all of it.
  bool mostly_on_disk() const { return bytes() >= std::int64_t{64} << 20; }
  const std::uint8_t* row(std::int64_t r) const { return data + r * row_bytes(); }
  /// The scales of row r, where there are any.
  const std::uint8_t* scales_of(std::int64_t r) const {
    return scales + r / block_rows * scale_cols() * bytes_of_scale();
  }

  /// Rows [first, first + count); `first` must be a multiple of block_rows where there are scales.
  WeightView rows_from(std::int64_t first, std::int64_t count) const {
    WeightView v = *this;
    v.data = row(first);
    v.rows = count;
    if (block_rows != 0) v.scales = scales_of(first);
    return v;
  }
};

/// The block scale that W[row, col] carries; 1 without scales.
float weight_scale(const WeightView& w, std::int64_t row, std::int64_t col);

/// The truth: W[row, col] decoded in f32.
float weight_value(const WeightView& w, std::int64_t row, std::int64_t col);

/// Decodes row `row` into out[cols], f32.
void decode_weight_row(const WeightView& w, std::int64_t row, float* out);

}  // namespace seekline
