#include "kernels/linear.h"

#include <algorithm>
#include <new>

#include "core/check.h"

namespace seekline {
namespace {

// Output rows a worker takes at least; a multiple of every micro-kernel's row block.
constexpr std::int64_t kRowGrain = 16;
// The same for products of a few rows, such as those that mix streams: threads should get as many each.
constexpr std::int64_t kFineGrain = 4, kFewRows = 64;
// Of the next weights, fetched while the last rows of a product are multiplied.
constexpr std::int64_t kPrefetchBytes = 65536;

std::int64_t grain_of(const WeightView& w) { return w.rows <= kFewRows ? kFineGrain : kRowGrain; }

// Products with few output rows and many tokens (routers, stream mixing) are cut by tokens instead. Never
// those that accumulate: several of them may add to one row, and must do so on one worker.
bool split_by_tokens(const Product& product, int workers) {
  return !product.accumulate && product.x.count >= 4 * workers && product.w.rows < 2 * kRowGrain * workers;
}

}  // namespace

PreparedRows prepare_rows(Compute& compute, WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer,
                          MatrixView<const float> x) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  const std::int64_t bytes = (compute.kernels.prepared_bytes(kind, arithmetic, x.cols) + 63) / 64 * 64;
  std::uint8_t* memory = compute.arena.bytes(bytes * x.rows);
  const std::uint8_t** rows = compute.arena.array<const std::uint8_t*>(x.rows);
  for (std::int64_t r = 0; r < x.rows; ++r) rows[r] = memory + r * bytes;
  for_rows(compute, x.rows, [&](std::int64_t r) {
    compute.kernels.prepare(kind, arithmetic, quantizer, x.row(r), x.cols, memory + r * bytes);
  });
  return {rows, x.rows, x.cols, kind, arithmetic};
}

void run_products(Compute& compute, std::span<const Product> products) {
  Arena::Scope scope(compute.arena);
  const int workers = compute.pool.size();
  std::int64_t scratch_bytes = 0;
  for (const Product& p : products) {
    SEEKLINE_CHECK(p.x.cols == p.w.cols && p.x.kind == p.w.kind, "rows were prepared for another weight");
    scratch_bytes = std::max(scratch_bytes, compute.kernels.matmul_scratch_bytes(p.w.cols));
  }
  scratch_bytes = (scratch_bytes + 63) / 64 * 64;
  std::uint8_t* scratch = compute.arena.bytes(scratch_bytes * workers);
  if (compute.profile) {
    for (const Product& p : products)
      compute.profile->count(p.w.bytes(),
                             2.0 * static_cast<double>(p.w.rows * p.w.cols) * static_cast<double>(p.x.count));
  }
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
        rows = static_split(p.w.rows, grain_of(p.w), worker, workers);
      }
      if (tokens.size() <= 0 || rows.size() <= 0) continue;
      m.row_begin = rows.begin;
      m.row_end = rows.end;
      m.x = p.x.rows + tokens.begin;
      m.y = p.y + tokens.begin;
      m.tokens = tokens.size();
      // The weights that this worker streams next are on their way while it finishes these.
      if (&p != &products.back()) {
        const WeightView& next = (&p + 1)->w;
        m.prefetch =
            next.data + static_split(next.rows, grain_of(next), worker, workers).begin * next.row_bytes();
        m.prefetch_bytes = std::min(kPrefetchBytes, next.rows * next.row_bytes() / workers);
      }
      compute.kernels.matmul(m);
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
  const Linear layer{w, y};
  linears(compute, {&layer, 1}, quantizer, x, arithmetic);
}

void linears(Compute& compute, std::span<const Linear> layers, BlockQuantizer quantizer,
             MatrixView<const float> x, Arithmetic arithmetic) {
  Arena::Scope scope(compute.arena);
  const PreparedRows rows = prepare_rows(compute, layers.front().w.kind, arithmetic, quantizer, x);
  Product* products = compute.arena.array<Product>(static_cast<std::int64_t>(layers.size()));
  std::size_t count = 0;
  for (const Linear& layer : layers) {
    SEEKLINE_CHECK(x.rows == layer.y.rows && layer.y.cols == layer.w.rows, "shapes of a linear layer");
    new (products + count++) Product{layer.w, rows, row_pointers(compute, layer.y)};
  }
  run_products(compute, {products, count});
}

}  // namespace seekline
