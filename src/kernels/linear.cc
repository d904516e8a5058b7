#include "kernels/linear.h"

#include <algorithm>

#include "core/check.h"

namespace seekline {
namespace {

// Output rows a worker takes at least; a multiple of every micro-kernel's row block.
constexpr std::int64_t kRowGrain = 16;

// Products with few output rows and many tokens (routers, stream mixing) are cut by tokens instead. Never
// those that accumulate: several of them may add to one row, and must do so on one worker.
bool split_by_tokens(const Product& product, int workers) {
  return !product.accumulate && product.x.count >= 4 * workers && product.w.rows < 2 * kRowGrain * workers;
}

// The scalar truth of a product: one weight row decoded in scratch for all tokens, sums in f64.
void matmul_exact(const Kernels& kernels, const Matmul& m) {
  float* weights = reinterpret_cast<float*>(m.scratch);
  for (std::int64_t o = m.row_begin; o < m.row_end; ++o) {
    decode_weight_row(m.w, o, weights);
    for (std::int64_t t = 0; t < m.tokens; ++t) {
      const float sum =
          static_cast<float>(kernels.dot_exact(reinterpret_cast<const float*>(m.x[t]), weights, m.w.cols));
      m.y[t][o] = m.accumulate ? m.y[t][o] + sum : sum;
    }
  }
}

}  // namespace

PreparedRows prepare_rows(Compute& compute, WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer,
                          MatrixView<const float> x) {
  const bool exact = compute.settings.arithmetic == Arithmetic::kF32;
  const std::int64_t row_bytes =
      exact ? x.cols * 4 : compute.kernels.prepared_bytes(kind, arithmetic, x.cols);
  const std::int64_t bytes = (row_bytes + 63) / 64 * 64;
  std::uint8_t* memory = compute.arena.bytes(bytes * x.rows);
  const std::uint8_t** rows = compute.arena.array<const std::uint8_t*>(x.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) rows[r] = memory + r * bytes;
  for_rows(compute, x.rows, [&](std::int64_t r) {
    if (exact) {
      quantize_values(quantizer, x.row_span(r),
                      {reinterpret_cast<float*>(memory + r * bytes), static_cast<std::size_t>(x.cols)});
    } else {
      compute.kernels.prepare(kind, arithmetic, quantizer, x.row(r), x.cols, memory + r * bytes);
    }
  });
  return {rows, x.rows, x.cols, kind, arithmetic, exact};
}

void run_products(Compute& compute, std::span<const Product> products) {
  Arena::Scope scope(compute.arena);
  const int workers = compute.pool.size();
  std::int64_t scratch_bytes = 0;
  for (const Product& p : products) {
    SEEKLINE_CHECK(p.x.cols == p.w.cols && p.x.kind == p.w.kind, "rows were prepared for another weight");
    scratch_bytes = std::max({scratch_bytes, compute.kernels.matmul_scratch_bytes(p.w.cols), p.w.cols * 4});
  }
  scratch_bytes = (scratch_bytes + 63) / 64 * 64;
  std::uint8_t* scratch = compute.arena.bytes(scratch_bytes * workers);
  compute.pool.run([&](int worker) {
    for (const Product& p : products) {
      Matmul m;
      m.w = p.w;
      m.arithmetic = p.x.arithmetic;
      m.accumulate = p.accumulate;
      m.scratch = scratch + worker * scratch_bytes;
      WorkRange tokens{0, p.x.count}, rows{0, p.w.rows};
      if (split_by_tokens(p, workers)) {
        tokens = static_split(p.x.count, 1, worker, workers);
      } else {
        rows = static_split(p.w.rows, kRowGrain, worker, workers);
      }
      if (tokens.size() <= 0 || rows.size() <= 0) continue;
      m.row_begin = rows.begin;
      m.row_end = rows.end;
      m.x = p.x.rows + tokens.begin;
      m.y = p.y + tokens.begin;
      m.tokens = tokens.size();
      if (p.x.exact) {
        matmul_exact(compute.kernels, m);
      } else {
        compute.kernels.matmul(m);
      }
    }
  });
}

float* const* row_pointers(Compute& compute, MatrixView<float> y) {
  float** rows = compute.arena.array<float*>(y.rows);
  for (std::int64_t r = 0; r < y.rows; ++r) rows[r] = y.row(r);
  return rows;
}

void linear(Compute& compute, const WeightView& w, BlockQuantizer quantizer, MatrixView<const float> x,
            MatrixView<float> y, Arithmetic arithmetic) {
  SEEKLINE_CHECK(x.rows == y.rows && y.cols == w.rows, "shapes of a linear layer");
  Arena::Scope scope(compute.arena);
  const Product product{w, prepare_rows(compute, w.kind, arithmetic, quantizer, x), row_pointers(compute, y)};
  run_products(compute, {&product, 1});
}

}  // namespace seekline
