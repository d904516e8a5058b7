#include <span>

#include "kernels/portable.h"

namespace seekline::portable {

std::int64_t prepared_bytes(WeightKind, Arithmetic, std::int64_t k) { return k * 4; }

void prepare(WeightKind, Arithmetic, BlockQuantizer quantizer, const float* x, std::int64_t k,
             std::uint8_t* out) {
  const auto count = static_cast<std::size_t>(k);
  quantize_values(quantizer, {x, count}, {reinterpret_cast<float*>(out), count});
}

std::int64_t matmul_scratch_bytes(std::int64_t k) { return k * 4; }

// One decoded weight row at a time, in scratch, for all tokens.
void matmul(const Matmul& m) {
  float* row = reinterpret_cast<float*>(m.scratch);
  for (std::int64_t o = m.row_begin; o < m.row_end; ++o) {
    decode_weight_row(m.w, o, row);
    for (std::int64_t t = 0; t < m.tokens; ++t) {
      const float sum = dot(reinterpret_cast<const float*>(m.x[t]), row, m.w.cols);
      m.y[t][o] = m.accumulate ? m.y[t][o] + sum : sum;
    }
  }
}

}  // namespace seekline::portable
