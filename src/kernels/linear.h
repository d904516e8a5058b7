// Products of many rows with weights as they lie in the file, spread over the threads.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/compute.h"

namespace seekline {

/// Rows in the form that products with one kind of weight take; lives in the arena scope it was made in.
struct PreparedRows {
  const std::uint8_t* const* rows = nullptr;
  std::int64_t count = 0;
  std::int64_t cols = 0;
  WeightKind kind = WeightKind::kBF16;
  Arithmetic arithmetic = Arithmetic::kF32;

  PreparedRows slice(std::int64_t first, std::int64_t n) const {
    return {rows + first, n, cols, kind, arithmetic};
  }
};

/// x [rows, cols] -> prepared rows, each sent through `quantizer` first.
PreparedRows prepare_rows(Compute& compute, WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer,
                          MatrixView<const float> x);

/// y[t] (+)= x[t] * w^T. `y` has one pointer a row of x.
struct Product {
  WeightView w;
  PreparedRows x;
  float* const* y = nullptr;
  bool accumulate = false;
};

/// Runs all products in one fork-join stage. Each worker takes its share of every product's rows in pieces,
/// then pieces that others have not begun. Products that accumulate have the same number of rows, and add to
/// a row in the order given.
void run_products(Compute& compute, std::span<const Product> products);

/// Pointers to the rows of a matrix, in the arena.
float* const* row_pointers(Compute& compute, MatrixView<float> y);

/// y = x * w^T with the input sent through `quantizer`, in the compute's own arithmetic unless told
/// otherwise.
void linear(Compute& compute, const WeightView& w, BlockQuantizer quantizer, MatrixView<const float> x,
            MatrixView<float> y, Arithmetic arithmetic);

/// The same with weights of one kind that take the same input, in one stage.
struct Linear {
  WeightView w;
  MatrixView<float> y;
};
void linears(Compute& compute, std::span<const Linear> layers, BlockQuantizer quantizer,
             MatrixView<const float> x, Arithmetic arithmetic);

/// Calls `task(row)` for every row, spread over the threads.
template <typename Task>
void for_rows(Compute& compute, std::int64_t rows, Task&& task) {
  if (rows == 1) return task(std::int64_t{0});
  compute.pool.split(rows, 1, [&](WorkRange range, int) {
    for (std::int64_t row = range.begin; row < range.end; ++row) task(row);
  });
}

}  // namespace seekline
