#include "attention/latent_heads.h"

#include <algorithm>
#include <cstring>

namespace seekline {
namespace {

// Tokens of one kernel call: bounds the scratch of a worker, whatever the batch.
constexpr std::int64_t kTokens = 256;
// Columns of the latent that a task absorbs where there are fewer heads than would keep all threads busy; the
// grain of TransposedMatmul.
constexpr std::int64_t kColumns = 128;

// A profile hears of a product of all heads' `rows` rows each.
void count_product(const Compute& compute, const LatentHeads& heads, int rows, std::int64_t tokens) {
  if (!compute.profile) return;
  const double weights = static_cast<double>(heads.heads) * rows * heads.latent;
  compute.profile->count(heads.kv_b.bytes() * rows / heads.head_rows(),
                         2 * weights * static_cast<double>(tokens));
}

}  // namespace

MatrixView<float> absorb_queries(Compute& compute, const LatentHeads& heads, MatrixView<const float> q) {
  MatrixView<float> out = compute.arena.matrix(q.rows, std::int64_t{heads.heads} * heads.latent_width());
  count_product(compute, heads, heads.nope, q.rows);
  Arena::Scope scope(compute.arena);
  const Kernels& k = compute.kernels;
  const std::int64_t most = std::min(kTokens, q.rows);
  const std::int64_t scratch_bytes = whole_lines(k.transposed_scratch_bytes(heads.nope, heads.latent, most));
  std::uint8_t* scratch = compute.arena.bytes(scratch_bytes * compute.pool.size());
  const float** x = compute.arena.array<const float*>(most * compute.pool.size());
  float** y = compute.arena.array<float*>(most * compute.pool.size());
  const std::int64_t columns = heads.heads >= 4 * compute.pool.size() ? heads.latent : kColumns;
  const std::int64_t parts = (heads.latent + columns - 1) / columns;
  compute.pool.split(heads.heads * parts, 1, [&](WorkRange range, int worker) {
    TransposedMatmul m;
    m.w = heads.kv_b;
    m.arithmetic = compute.settings.arithmetic;
    m.x = x + most * worker;
    m.y = y + most * worker;
    m.scratch = scratch + scratch_bytes * worker;
    for (std::int64_t task = range.begin; task < range.end; ++task) {
      const std::int64_t head = task / parts, part = task % parts;
      m.row_begin = head * heads.head_rows();
      m.row_end = m.row_begin + heads.nope;
      m.col_begin = part * columns;
      m.col_end = std::min<std::int64_t>(heads.latent, m.col_begin + columns);
      const std::int64_t next = std::min<std::int64_t>(task + 1, heads.heads * parts - 1);
      m.prefetch =
          m.w.row(next / parts * heads.head_rows()) + m.w.row_bytes() * (next % parts) * columns / m.w.cols;
      for (std::int64_t first = 0; first < q.rows; first += most) {
        m.tokens = std::min(most, q.rows - first);
        for (std::int64_t t = 0; t < m.tokens; ++t) {
          x[most * worker + t] = q.row(first + t) + head * heads.key_width();
          y[most * worker + t] = out.row(first + t) + head * heads.latent_width();
          if (part == 0)
            std::memcpy(y[most * worker + t] + heads.latent, x[most * worker + t] + heads.nope,
                        static_cast<std::size_t>(heads.rope) * sizeof(float));
        }
        k.matmul_transposed(m);
      }
    }
  });
  return out;
}

MatrixView<float> unfold_values(Compute& compute, const LatentHeads& heads, MatrixView<const float> u) {
  const Kernels& k = compute.kernels;
  const Arithmetic arithmetic = compute.settings.arithmetic;
  count_product(compute, heads, heads.value, u.rows);
  // A product writes y[row of the weight], and head h's rows begin (h + 1) * nope above its place in the
  // output: that much room lies in front of the first.
  const std::int64_t width = std::int64_t{heads.heads} * heads.value,
                     room = std::int64_t{heads.heads} * heads.nope;
  const MatrixView<float> out(compute.arena.array<float>(room + u.rows * width) + room, u.rows, width);
  Arena::Scope scope(compute.arena);
  const std::int64_t most = std::min(kTokens, u.rows);
  const std::int64_t row_bytes = whole_lines(k.prepared_bytes(heads.kv_b.kind, arithmetic, heads.latent));
  const std::int64_t scratch_bytes = whole_lines(k.matmul_scratch_bytes(heads.latent));
  std::uint8_t* prepared = compute.arena.bytes(row_bytes * most * compute.pool.size());
  std::uint8_t* scratch = compute.arena.bytes(scratch_bytes * compute.pool.size());
  const std::uint8_t** x = compute.arena.array<const std::uint8_t*>(most * compute.pool.size());
  float** y = compute.arena.array<float*>(most * compute.pool.size());
  compute.pool.split(heads.heads, 1, [&](WorkRange range, int worker) {
    Matmul m;
    m.w = heads.kv_b;
    m.arithmetic = arithmetic;
    m.x = x + most * worker;
    m.y = y + most * worker;
    m.scratch = scratch + scratch_bytes * worker;
    for (std::int64_t head = range.begin; head < range.end; ++head) {
      m.row_begin = head * heads.head_rows() + heads.nope;
      m.row_end = m.row_begin + heads.value;
      for (std::int64_t first = 0; first < u.rows; first += most) {
        m.tokens = std::min(most, u.rows - first);
        const bool on = first + m.tokens == u.rows && head + 1 < heads.heads;
        m.prefetch = on ? m.w.row(m.row_begin + heads.head_rows()) : nullptr;
        m.prefetch_bytes = heads.value * m.w.row_bytes();
        for (std::int64_t t = 0; t < m.tokens; ++t) {
          std::uint8_t* row = prepared + (most * worker + t) * row_bytes;
          k.prepare(heads.kv_b.kind, arithmetic, BlockQuantizer::kNone,
                    u.row(first + t) + head * heads.latent, heads.latent, row);
          x[most * worker + t] = row;
          y[most * worker + t] = out.row(first + t) + head * heads.value - m.row_begin;
        }
        k.matmul(m);
      }
    }
  });
  return out;
}

}  // namespace seekline
