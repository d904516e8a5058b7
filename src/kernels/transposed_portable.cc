#include <algorithm>

#include "kernels/portable.h"

namespace seekline::portable {

std::int64_t transposed_scratch_bytes(std::int64_t, std::int64_t cols, std::int64_t) { return cols * 4; }

// One decoded weight row at a time, in scratch, added to all tokens.
void matmul_transposed(const TransposedMatmul& m) {
  float* row = reinterpret_cast<float*>(m.scratch);
  const std::int64_t count = m.col_end - m.col_begin;
  for (std::int64_t t = 0; t < m.tokens; ++t) std::fill_n(m.y[t] + m.col_begin, count, 0.0f);
  for (std::int64_t r = m.row_begin; r < m.row_end; ++r) {
    decode_weight_row(m.w, r, row);
    for (std::int64_t t = 0; t < m.tokens; ++t)
      axpy(m.x[t][r - m.row_begin], row + m.col_begin, count, m.y[t] + m.col_begin);
  }
}

}  // namespace seekline::portable
