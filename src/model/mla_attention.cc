#include "model/mla_attention.h"

#include <algorithm>
#include <new>

#include "attention/dense_attend.h"
#include "attention/expand_attend.h"
#include "attention/gather_attend.h"
#include "kernels/linear.h"
#include "model/latent_cost.h"

namespace seekline {
namespace {

// Absorbed queries that are held at once: as wide as a model's heads are many.
constexpr std::int64_t kAbsorbedFloats = std::int64_t{1} << 23;

// The rows that each token selected: [tokens, capacity].
RowRef* selected_rows(Compute& compute, const TokenBatch& batch, const LatentRows& rows) {
  const Selection& selection = *rows.selection;
  RowRef* refs = compute.arena.array<RowRef>(batch.count * selection.capacity);
  for_rows(compute, batch.count, [&](std::int64_t r) {
    const SequenceCache& cache = *batch.run(r).cache;
    for (std::int32_t i = 0; i < selection.counts[r]; ++i)
      refs[r * selection.capacity + i] = cache.row(rows.store->id, selection.list(r)[i]);
  });
  return refs;
}

void count_selected(const TokenBatch& batch, const LatentRows& rows) {
  for (std::int64_t r = 0; r < batch.count; ++r)
    batch.run(r).cache->ledger().read(rows.layer, rows.store->id, rows.selection->counts[r]);
}

void attend_selected(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  const RowRef* refs = selected_rows(compute, batch, rows);
  GatherQuery* queries = compute.arena.array<GatherQuery>(batch.count);
  for (std::int64_t r = 0; r < batch.count; ++r)
    new (queries + r)
        GatherQuery{q.row(r),
                    out.row(r),
                    {{&rows.store->row, refs + r * rows.selection->capacity, rows.selection->counts[r]}, {}}};
  GatherShape shape;
  shape.heads = heads.heads;
  shape.key_width = heads.latent_width();
  shape.value_width = heads.latent;
  shape.scale = rows.scale;
  gather_and_show(compute, shape, batch, rows.layer, rows.store,
                  {queries, static_cast<std::size_t>(batch.count)}, rows.taps);
  count_selected(batch, rows);
}

// A run's tokens share all rows up to the last one's own.
std::span<const ExpandBlock> dense_blocks(Compute& compute, const TokenBatch& batch, const LatentRows& rows) {
  ExpandBlock* blocks = compute.arena.array<ExpandBlock>(static_cast<std::int64_t>(batch.runs.size()));
  std::size_t count = 0;
  for (const FlatRun& run : batch.runs) {
    const std::int64_t end = run.first_position + run.count;
    RowRef* refs = compute.arena.array<RowRef>(end);
    for (std::int64_t i = 0; i < end; ++i) refs[i] = run.cache->row(rows.store->id, i);
    new (blocks + count++) ExpandBlock{run.begin, run.count, refs, end, run.first_position + 1};
    run.cache->ledger().read(rows.layer, rows.store->id,
                             run.count * run.first_position + run.count * (run.count + 1) / 2);
  }
  return {blocks, count};
}

std::span<const ExpandBlock> selected_blocks(Compute& compute, const TokenBatch& batch,
                                             const LatentRows& rows) {
  const RowRef* refs = selected_rows(compute, batch, rows);
  ExpandBlock* blocks = compute.arena.array<ExpandBlock>(batch.count);
  for (std::int64_t r = 0; r < batch.count; ++r)
    new (blocks + r) ExpandBlock{r, 1, refs + r * rows.selection->capacity, rows.selection->counts[r],
                                 rows.selection->counts[r]};
  count_selected(batch, rows);
  return {blocks, static_cast<std::size_t>(batch.count)};
}

// Consecutive tokens of a batch as a batch of their own, with their selections.
struct Slice {
  TokenBatch batch;
  Selection selection;
  LatentRows rows;

  Slice(Arena& arena, const TokenBatch& whole, std::int64_t first, std::int64_t count, const LatentRows& all)
      : rows(all) {
    FlatRun* runs = arena.array<FlatRun>(static_cast<std::int64_t>(whole.runs.size()));
    std::int32_t* run_of = arena.array<std::int32_t>(count);
    std::size_t taken = 0;
    for (const FlatRun& run : whole.runs) {
      const std::int64_t begin = std::max(first, run.begin),
                         end = std::min(first + count, run.begin + run.count);
      if (begin >= end) continue;
      FlatRun* part = new (runs + taken) FlatRun(run);
      part->first_position += begin - run.begin;
      part->begin = begin - first;
      part->count = end - begin;
      std::fill_n(run_of + part->begin, part->count, static_cast<std::int32_t>(taken++));
    }
    batch = {{runs, taken}, count, whole.position + first, run_of};
    if (!all.selection) return;
    selection = *all.selection;
    selection.items += first * selection.capacity;
    selection.counts += first;
    rows.selection = &selection;
  }
  Slice(const Slice&) = delete;
  Slice& operator=(const Slice&) = delete;
};

LatentOrder order_of(const LatentHeads& heads, const FlatRun& run, const LatentRows& rows) {
  std::int64_t read = run.first_position + run.count;
  if (rows.selection) read = std::min(read, rows.selection->capacity);
  return cheaper_order(heads, run.count, read, !rows.selection);
}

}  // namespace

void attend_latents(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                    const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  Arena::Scope scope(compute.arena);
  if (rows.selection) return attend_selected(compute, heads, batch, rows, q, out);
  DenseShape shape;
  shape.heads = heads.heads;
  shape.kv_heads = 1;
  shape.key_width = heads.latent_width();
  shape.value_width = heads.latent;
  shape.scale = rows.scale;
  dense_attend(compute, batch, rows.layer, *rows.store, shape, q, out);
}

void attend_absorbed(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  const std::int64_t width = std::int64_t{heads.heads} * heads.latent_width();
  const std::int64_t most = std::max<std::int64_t>(1, kAbsorbedFloats / width);
  for (std::int64_t first = 0; first < batch.count; first += most) {
    Arena::Scope scope(compute.arena);
    const std::int64_t count = std::min(most, batch.count - first);
    const Slice slice(compute.arena, batch, first, count, rows);
    const MatrixView<float> queries = absorb_queries(compute, heads, q.rows_from(first, count));
    const MatrixView<float> latents = compute.arena.matrix(count, std::int64_t{heads.heads} * heads.latent);
    attend_latents(compute, heads, slice.batch, slice.rows, queries, latents);
    const MatrixView<float> values = unfold_values(compute, heads, latents);
    for (std::int64_t t = 0; t < count; ++t) std::copy_n(values.row(t), values.cols, out.row(first + t));
  }
}

void attend_expanded(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  Arena::Scope scope(compute.arena);
  const std::span<const ExpandBlock> blocks =
      rows.selection ? selected_blocks(compute, batch, rows) : dense_blocks(compute, batch, rows);
  expand_attend(compute, heads, rows.scale, rows.store->row, blocks, q, out);
}

void attend_by_cost(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                    const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  for (const FlatRun& run : batch.runs) {
    Arena::Scope scope(compute.arena);
    const Slice slice(compute.arena, batch, run.begin, run.count, rows);
    const auto attend =
        order_of(heads, run, rows) == LatentOrder::kExpand ? attend_expanded : attend_absorbed;
    attend(compute, heads, slice.batch, slice.rows, q.rows_from(run.begin, run.count),
           out.rows_from(run.begin, run.count));
  }
}

}  // namespace seekline
