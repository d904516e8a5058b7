#include "kernels/linear.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "core/check.h"
#include "kernels/row_pitch.h"

namespace seekline {
namespace {

// Output rows that threads are given at least; multiples of every micro-kernel's row block, of large weights
// also of a block of scales. Products of a few rows, such as those that mix streams, are cut finer.
constexpr std::int64_t kRowGrain = 16, kBlockGrain = 32, kFineGrain = 4;
constexpr std::int64_t kFewRows = 64, kManyRows = 1024;
// Weights of one product in a piece of a worker's rows: long runs (row_runs.h), the longer the more there is
// to read, but some pieces for everyone. The last ones before workers wait for each other are small.
constexpr std::int64_t kPieceBytes = 512 << 10, kLongestPieceBytes = 2 << 20, kLastPieceBytes = 128 << 10;
constexpr std::int64_t kPieces = 256;
// Of the next weights, fetched while the last rows of a piece are multiplied.
constexpr std::int64_t kPrefetchBytes = 65536;

std::int64_t grain_of(const WeightView& w) {
  return w.rows <= kFewRows ? kFineGrain : w.rows < kManyRows ? kRowGrain : kBlockGrain;
}

// Products with few output rows and many tokens (routers, stream mixing) are cut by tokens instead. Never
// those that accumulate: several of them may add to one row, and must do so on one worker.
bool split_by_tokens(const Product& product, int workers) {
  return !product.accumulate && product.x.count >= 4 * workers && product.w.rows < 2 * kRowGrain * workers;
}

// A worker's share of a product, in pieces: whole ones, and small ones at its end.
struct Share {
  WorkRange tokens, rows;
  std::int64_t piece_rows = 1, last_rows = 1;

  std::int64_t whole() const { return std::max<std::int64_t>(0, rows.size() / piece_rows - 1); }
  std::int64_t pieces() const {
    if (tokens.size() <= 0) return 0;
    return whole() + (rows.size() - whole() * piece_rows + last_rows - 1) / last_rows;
  }
  WorkRange piece(std::int64_t i) const {
    const std::int64_t begin =
        rows.begin + (i < whole() ? i * piece_rows : whole() * piece_rows + (i - whole()) * last_rows);
    return {begin, std::min(begin + (i < whole() ? piece_rows : last_rows), rows.end)};
  }
};

// `last`: no other product comes after it in its stage, so the workers wait for each other at its end.
Share share_of(const Product& product, int worker, int workers, std::int64_t bytes_per_row,
               std::int64_t piece_bytes, bool last) {
  const WeightView& w = product.w;
  const std::int64_t count = product.x.count;
  if (split_by_tokens(product, workers)) {
    const std::int64_t all = std::max<std::int64_t>(1, w.rows);
    return {static_split(count, 1, worker, workers), {0, w.rows}, all, all};
  }
  const std::int64_t grain = grain_of(w), row = std::max<std::int64_t>(1, bytes_per_row);
  const auto rows_of = [&](std::int64_t bytes) {
    return std::max<std::int64_t>(1, bytes / row / grain) * grain;
  };
  return {{0, count},
          static_split(w.rows, grain, worker, workers),
          rows_of(piece_bytes),
          rows_of(last ? kLastPieceBytes : piece_bytes)};
}

// How many pieces of one worker's share have been begun, by that worker or by others that had no more of
// their own.
struct alignas(64) Begun {
  std::atomic<std::int64_t> pieces{0};
  std::int64_t next() { return pieces.fetch_add(1, std::memory_order_relaxed); }
};

// The products of one stage. Each worker begins with its own share; one that has finished takes pieces of
// the others', so that a processor that is slow or busy with something else does not hold up the stage.
// Every output row is one worker's whatever piece it is in, so the sums do not depend on who computes them.
class Stage {
 public:
  Stage(const Compute& compute, std::span<const Product> products, std::uint8_t* scratch,
        std::int64_t scratch_bytes, Begun* begun)
      : compute_(compute),
        products_(products),
        workers_(compute.pool.size()),
        scratch_(scratch),
        scratch_bytes_(scratch_bytes),
        begun_(begun) {
    for (const Product& p : products) {
      row_bytes_ = std::max(row_bytes_, p.w.row_bytes());
      piece_bytes_ += p.w.bytes();
      accumulates_ = accumulates_ || p.accumulate;
    }
    piece_bytes_ = std::clamp(piece_bytes_ / workers_ / kPieces, kPieceBytes, kLongestPieceBytes);
    for (const Product& p : products)
      SEEKLINE_CHECK(!accumulates_ || p.w.rows == products.front().w.rows,
                     "products that add to the same rows have as many");
  }

  void work(int worker) const {
    for (int turn = 0; turn < workers_; ++turn) {
      const int owner = (worker + turn) % workers_;
      accumulates_ ? take_rows(owner, worker) : take_products(owner, worker);
    }
  }

 private:
  // A piece is some rows of all products, added in the order given.
  void take_rows(int owner, int worker) const {
    const Share share = share_of(products_.front(), owner, workers_, row_bytes_, piece_bytes_, true);
    for (std::int64_t i = begun_[owner].next(); i < share.pieces(); i = begun_[owner].next()) {
      const WorkRange rows = share.piece(i);
      for (const Product& p : products_) {
        const bool last = &p == &products_.back();
        const Product& next = last ? products_.front() : *(&p + 1);
        multiply(p, {0, p.x.count}, rows, next.w, last ? rows.end : rows.begin, worker);
      }
    }
  }

  // A piece is some rows of one product.
  void take_products(int owner, int worker) const {
    std::int64_t i = begun_[owner].next(), before = 0;
    for (const Product& p : products_) {
      const bool last = &p == &products_.back();
      const Share share = share_of(p, owner, workers_, p.w.row_bytes(), piece_bytes_, last);
      for (; i < before + share.pieces(); i = begun_[owner].next()) {
        const WorkRange rows = share.piece(i - before);
        const bool goes_on = rows.end < share.rows.end || last;
        const Product& next = goes_on ? p : *(&p + 1);
        const std::int64_t row =
            goes_on ? rows.end : static_split(next.w.rows, grain_of(next.w), owner, workers_).begin;
        multiply(p, share.tokens, rows, next.w, row, worker);
      }
      before += share.pieces();
    }
  }

  // The weights from row `next_row` of `next` on are on their way while the last of these are multiplied.
  void multiply(const Product& p, WorkRange tokens, WorkRange rows, const WeightView& next,
                std::int64_t next_row, int worker) const {
    Matmul m;
    m.w = p.w;
    m.arithmetic = p.x.arithmetic;
    m.accumulate = p.accumulate;
    m.scratch = scratch_ + worker * scratch_bytes_;
    m.row_begin = rows.begin;
    m.row_end = rows.end;
    m.x = p.x.rows + tokens.begin;
    m.y = p.y + tokens.begin;
    m.tokens = tokens.size();
    if (next_row < next.rows) {
      m.prefetch = next.row(next_row);
      m.prefetch_bytes = std::min(kPrefetchBytes, (next.rows - next_row) * next.row_bytes());
    }
    compute_.kernels.matmul(m);
  }

  const Compute& compute_;
  std::span<const Product> products_;
  int workers_;
  std::uint8_t* scratch_;
  std::int64_t scratch_bytes_;
  Begun* begun_;
  std::int64_t row_bytes_ = 0, piece_bytes_ = 0;
  bool accumulates_ = false;
};

}  // namespace

PreparedRows prepare_rows(Compute& compute, WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer,
                          MatrixView<const float> x) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  const std::int64_t bytes = row_pitch(compute.kernels.prepared_bytes(kind, arithmetic, x.cols));
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
  scratch_bytes = whole_lines(scratch_bytes);
  std::uint8_t* scratch = compute.arena.bytes(scratch_bytes * workers);
  if (compute.profile) {
    for (const Product& p : products)
      compute.profile->count(p.w.bytes(),
                             2.0 * static_cast<double>(p.w.rows * p.w.cols) * static_cast<double>(p.x.count));
  }
  Begun* begun = compute.arena.array<Begun>(workers);
  for (int worker = 0; worker < workers; ++worker) new (begun + worker) Begun;
  const Stage stage(compute, products, scratch, scratch_bytes, begun);
  compute.pool.run([&](int worker) { stage.work(worker); });
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
