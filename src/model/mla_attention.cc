#include "model/mla_attention.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "attention/dense_attend.h"
#include "attention/expand_attend.h"
#include "attention/gather_attend.h"
#include "kernels/linear.h"
#include "model/latent_cost.h"

namespace seekline {
namespace {

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
  gather_attend(compute, shape, {queries, static_cast<std::size_t>(batch.count)});
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

// Run `index` of a batch as a batch of its own, with its part of the selections.
struct OneRun {
  TokenBatch batch;
  Selection selection;
  LatentRows rows;

  OneRun(Arena& arena, const TokenBatch& whole, std::size_t index, const LatentRows& all) : rows(all) {
    const FlatRun& run = whole.runs[index];
    FlatRun* alone = arena.array<FlatRun>(1);
    new (alone) FlatRun(run);
    alone->begin = 0;
    std::int32_t* run_of = arena.array<std::int32_t>(run.count);
    std::fill_n(run_of, run.count, 0);
    batch = {{alone, 1}, run.count, whole.position + run.begin, run_of};
    if (!all.selection) return;
    selection = *all.selection;
    selection.items += run.begin * selection.capacity;
    selection.counts += run.begin;
    rows.selection = &selection;
  }
  OneRun(const OneRun&) = delete;
  OneRun& operator=(const OneRun&) = delete;
};

LatentOrder order_of(const LatentHeads& heads, const FlatRun& run, const LatentRows& rows) {
  std::int64_t read = run.first_position + run.count;
  if (rows.selection) read = std::min(read, rows.selection->capacity);
  return cheaper_order(heads, run.count, read, !rows.selection);
}

}  // namespace

MatrixView<float> attend_absorbed(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                                  const LatentRows& rows, MatrixView<const float> q) {
  const MatrixView<float> out = compute.arena.matrix(batch.count, std::int64_t{heads.heads} * heads.latent);
  Arena::Scope scope(compute.arena);
  if (rows.selection) {
    attend_selected(compute, heads, batch, rows, q, out);
    return out;
  }
  DenseShape shape;
  shape.heads = heads.heads;
  shape.kv_heads = 1;
  shape.key_width = heads.latent_width();
  shape.value_width = heads.latent;
  shape.scale = rows.scale;
  dense_attend(compute, batch, rows.layer, *rows.store, shape, q, out);
  return out;
}

void attend_expanded(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out) {
  Arena::Scope scope(compute.arena);
  const std::span<const ExpandBlock> blocks =
      rows.selection ? selected_blocks(compute, batch, rows) : dense_blocks(compute, batch, rows);
  expand_attend(compute, heads, rows.scale, rows.store->row, blocks, q, out);
}

MatrixView<float> attend_by_cost(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                                 const LatentRows& rows, MatrixView<const float> q) {
  const MatrixView<float> out = compute.arena.matrix(batch.count, std::int64_t{heads.heads} * heads.value);
  for (std::size_t r = 0; r < batch.runs.size(); ++r) {
    Arena::Scope scope(compute.arena);
    const FlatRun& run = batch.runs[r];
    const OneRun one(compute.arena, batch, r, rows);
    const MatrixView<const float> queries{q.row(run.begin), run.count, q.cols, q.stride};
    const MatrixView<float> to = out.rows_from(run.begin, run.count);
    if (order_of(heads, run, rows) == LatentOrder::kExpand) {
      attend_expanded(compute, heads, one.batch, one.rows, queries, to);
      continue;
    }
    const MatrixView<float> absorbed = absorb_queries(compute, heads, queries);
    const MatrixView<float> values =
        unfold_values(compute, heads, attend_absorbed(compute, heads, one.batch, one.rows, absorbed));
    for (std::int64_t t = 0; t < run.count; ++t)
      std::memcpy(to.row(t), values.row(t), static_cast<std::size_t>(to.cols) * sizeof(float));
  }
  return out;
}

}  // namespace seekline
