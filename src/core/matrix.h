// Views of row-major matrices. They never own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace seekline {

/// `rows` rows of `cols` values each, `stride` values apart.
template <typename T>
struct MatrixView {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;

  MatrixView() = default;
  MatrixView(T* d, std::int64_t r, std::int64_t c) : data(d), rows(r), cols(c), stride(c) {}
  MatrixView(T* d, std::int64_t r, std::int64_t c, std::int64_t s) : data(d), rows(r), cols(c), stride(s) {}
  operator MatrixView<const T>() const { return {data, rows, cols, stride}; }

  T* row(std::int64_t r) const { return data + r * stride; }
  std::span<T> row_span(std::int64_t r) const { return {row(r), static_cast<std::size_t>(cols)}; }
  MatrixView rows_from(std::int64_t first, std::int64_t count) const {
    return {row(first), count, cols, stride};
  }
  MatrixView cols_from(std::int64_t first, std::int64_t count) const {
    return {data + first, rows, count, stride};
  }
};

}  // namespace seekline
