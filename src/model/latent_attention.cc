#include "model/latent_attention.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "kernels/linear.h"

namespace seekline {
namespace {

std::int64_t selected_rows(const SelectedRows& selected, const TokenBatch& batch, std::int64_t row) {
  if (!selected.store) return 0;
  if (selected.selection) return selected.selection->counts[row];
  return (batch.position[row] + 1) / selected.store->tokens_per_row;
}

}  // namespace

void rotate_tails(Compute& compute, MatrixView<float> x, int heads, int width, const RopeAngles& angles,
                  bool inverse) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, x.rows, [&](std::int64_t r) {
    for (int h = 0; h < heads; ++h)
      rotate(x.row(r) + std::int64_t{h + 1} * width - 2 * angles.pairs, angles.cos_row(r), angles.sin_row(r),
             angles.pairs, RopeLayout::kInterleaved, inverse);
  });
}

MatrixView<float> low_queries_and_window_rows(Compute& compute, const LatentAttentionShape& shape,
                                              const LatentAttentionWeights& w, const RopeAngles& angles,
                                              MatrixView<const float> x, const StepRing& ring) {
  const PartScope part(compute.profile, StepPart::kAttention);
  MatrixView<float> qr = compute.arena.matrix(x.rows, w.wq_a.rows);
  Arena::Scope scope(compute.arena);
  MatrixView<float> kv = compute.arena.matrix(x.rows, shape.head_dim);
  const Linear both[] = {{w.wq_a, qr}, {w.wkv, kv}};
  linears(compute, both, shape.quantizer, x, compute.settings.arithmetic);
  for_rows(compute, x.rows, [&](std::int64_t r) {
    compute.kernels.rms_norm(qr.row(r), w.q_norm.data(), qr.cols, shape.norm_eps, qr.row(r));
    compute.kernels.rms_norm(kv.row(r), w.kv_norm.data(), shape.head_dim, shape.norm_eps, kv.row(r));
    rotate(kv.row(r) + shape.head_dim - shape.rope_dims, angles.cos_row(r), angles.sin_row(r), angles.pairs,
           RopeLayout::kInterleaved);
    ring.write(r, kv.row(r));
  });
  return qr;
}

IndexQueries index_queries(Compute& compute, BlockQuantizer quantizer, const WeightView& wq_b,
                           const WeightView& weights_proj, int width, const RopeAngles& angles,
                           MatrixView<const float> qr, MatrixView<const float> x) {
  const PartScope part(compute.profile, StepPart::kIndexer);
  const int heads = static_cast<int>(weights_proj.rows);
  const IndexQueries index{compute.arena.matrix(x.rows, std::int64_t{heads} * width),
                           compute.arena.matrix(x.rows, heads)};
  linear(compute, wq_b, quantizer, qr, index.queries, compute.settings.arithmetic);
  rotate_tails(compute, index.queries, heads, width, angles);
  linear(compute, weights_proj, BlockQuantizer::kNone, x, index.weights, Arithmetic::kF32);
  const float factor =
      static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)) / std::sqrt(static_cast<double>(heads)));
  for_rows(compute, x.rows, [&](std::int64_t r) {
    for (int h = 0; h < heads; ++h) index.weights.row(r)[h] *= factor;
  });
  return index;
}

RopeAngles group_angles(Compute& compute, const Rope& rope, std::span<const Latents::Group> groups) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  std::int64_t* positions = compute.arena.array<std::int64_t>(static_cast<std::int64_t>(groups.size()));
  for (std::size_t g = 0; g < groups.size(); ++g) positions[g] = groups[g].first_position;
  return rope_angles(compute, rope, positions, static_cast<std::int64_t>(groups.size()));
}

namespace {

// q [tokens, heads * head_dim] -> attention outputs in place, rotated back.
void attend_latent(Compute& compute, const LatentAttentionShape& shape, const TokenBatch& batch, int layer,
                   const SelectedRows& selected, const StepRing& window, const float* sinks,
                   const RopeAngles& angles, MatrixView<float> q, Taps* taps) {
  const PartScope part(compute.profile, StepPart::kCacheReads);
  Arena::Scope scope(compute.arena);
  std::int64_t most = 0;
  for (std::int64_t r = 0; r < batch.count; ++r) most = std::max(most, selected_rows(selected, batch, r));
  const std::int64_t capacity = most + shape.window;
  RowRef* refs = compute.arena.array<RowRef>(batch.count * capacity);
  GatherQuery* queries = compute.arena.array<GatherQuery>(batch.count);
  for_rows(compute, batch.count, [&](std::int64_t r) {
    const FlatRun& run = batch.run(r);
    RowRef* main = refs + r * capacity;
    const std::int64_t count = selected_rows(selected, batch, r);
    for (std::int64_t i = 0; i < count; ++i)
      main[i] = run.cache->row(selected.store->id, selected.selection ? selected.selection->list(r)[i] : i);
    RowRef* recent = main + count;
    const std::int64_t begin = window.window_begin(run, batch.position[r]);
    for (std::int64_t s = begin; s <= batch.position[r]; ++s) recent[s - begin] = window.at(run, s);
    const int window_count = static_cast<int>(batch.position[r] + 1 - begin);
    new (queries + r) GatherQuery{
        q.row(r),
        q.row(r),
        {{selected.store ? &selected.store->row : &window.format(), main, static_cast<int>(count)},
         {&window.format(), recent, window_count}}};
  });
  for (std::int64_t r = 0; r < batch.count; ++r) {
    Ledger& ledger = batch.run(r).cache->ledger();
    if (selected.store) ledger.read(layer, selected.store->id, queries[r].segments[0].count);
    ledger.read(layer, window.id(), queries[r].segments[1].count);
  }
  GatherShape gather;
  gather.heads = shape.heads;
  gather.key_width = gather.value_width = shape.head_dim;
  gather.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.head_dim)));
  gather.sinks = sinks;
  gather_and_show(compute, gather, batch, layer, selected.selection ? selected.store : nullptr,
                  {queries, static_cast<std::size_t>(batch.count)}, taps);
  rotate_tails(compute, q, shape.heads, shape.head_dim, angles, true);
}

void grouped_output(Compute& compute, const LatentAttentionShape& shape, const WeightView& wo_a,
                    const WeightView& wo_b, MatrixView<const float> heads, MatrixView<float> y) {
  const PartScope part(compute.profile, StepPart::kAttention);
  Arena::Scope scope(compute.arena);
  const std::int64_t inputs = heads.cols / shape.o_groups;
  const std::int64_t rank = wo_a.rows / shape.o_groups;
  MatrixView<float> low = compute.arena.matrix(heads.rows, wo_a.rows);
  Product* products = compute.arena.array<Product>(shape.o_groups);
  for (std::int64_t g = 0; g < shape.o_groups; ++g)
    new (products + g) Product{wo_a.rows_from(g * rank, rank),
                               prepare_rows(compute, wo_a.kind, compute.settings.arithmetic,
                                            BlockQuantizer::kNone, heads.cols_from(g * inputs, inputs)),
                               row_pointers(compute, low.cols_from(g * rank, rank))};
  run_products(compute, {products, static_cast<std::size_t>(shape.o_groups)});
  linear(compute, wo_b, shape.quantizer, low, y, compute.settings.arithmetic);
}

// Tokens whose queries (128 KB each at the released widths) are there at once.
constexpr std::int64_t kQueryTokens = 256;

}  // namespace

void latent_attention(Compute& compute, const LatentAttentionShape& shape, const LatentAttentionWeights& w,
                      const TokenBatch& batch, int layer, const SelectedRows& selected,
                      const StepRing& window, const RopeAngles& angles, MatrixView<const float> qr,
                      MatrixView<float> y, Taps* taps) {
  const PartScope part(compute.profile, StepPart::kAttention);
  for (std::int64_t first = 0; first < batch.count; first += kQueryTokens) {
    Arena::Scope scope(compute.arena);
    const std::int64_t tokens = std::min(kQueryTokens, batch.count - first);
    const RopeAngles at = angles.from(first);
    MatrixView<float> q = compute.arena.matrix(tokens, std::int64_t{shape.heads} * shape.head_dim);
    linear(compute, w.wq_b, shape.quantizer, qr.rows_from(first, tokens), q, compute.settings.arithmetic);
    if (w.head_norm_eps > 0)
      for_rows(compute, tokens, [&](std::int64_t r) {
        for (float* head = q.row(r); head < q.row(r) + q.cols; head += shape.head_dim)
          compute.kernels.rms_norm(head, nullptr, shape.head_dim, w.head_norm_eps, head);
      });
    rotate_tails(compute, q, shape.heads, shape.head_dim, at);
    Selection some;
    SelectedRows rows = selected;
    if (selected.selection) {
      some = selected.selection->from(first);
      rows.selection = &some;
    }
    attend_latent(compute, shape, batch.part(first, tokens), layer, rows, window, w.sinks, at, q, taps);
    grouped_output(compute, shape, w.wo_a, w.wo_b, q, y.rows_from(first, tokens));
  }
}

}  // namespace seekline
