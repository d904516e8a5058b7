#include "model/sparse_index.h"

#include <cmath>

#include "formats/hadamard.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

// Rotates and, for rounded rows, spreads `heads` vectors of a row.
void turn(const Store& store, float* x, int heads, int width, const RopeAngles& angles, std::int64_t row) {
  for (int h = 0; h < heads; ++h) {
    float* head = x + std::int64_t{h} * width;
    rotate(head, angles.cos_row(row), angles.sin_row(row), angles.pairs, RopeLayout::kHalfSplit);
    if (store.row.kind != RowKind::kF32) hadamard({head, static_cast<std::size_t>(width)});
  }
}

}  // namespace

void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n, float* out) {
  constexpr double kEps = 1e-6;
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]);
  const double mean = sum / static_cast<double>(n);
  for (std::int64_t i = 0; i < n; ++i) {
    const double d = static_cast<double>(x[i]) - mean;
    squares += d * d;
  }
  const double rstd = 1.0 / std::sqrt(squares / static_cast<double>(n) + kEps);
  for (std::int64_t i = 0; i < n; ++i)
    out[i] = static_cast<float>((static_cast<double>(x[i]) - mean) * rstd * static_cast<double>(weight[i]) +
                                static_cast<double>(bias[i]));
}

void write_index_keys(Compute& compute, const SparseIndexShape& shape, const SparseIndexWeights& weights,
                      const TokenBatch& batch, const Store& store, const RopeAngles& angles,
                      MatrixView<const float> x) {
  Arena::Scope scope(compute.arena);
  const PartScope part(compute.profile, StepPart::kIndexer);
  MatrixView<float> keys = compute.arena.matrix(batch.count, shape.width);
  linear(compute, weights.wk, shape.quantizer, x, keys, compute.settings.arithmetic);
  for_rows(compute, batch.count, [&](std::int64_t r) {
    const FlatRun& run = batch.run(r);
    if (batch.position[r] < run.write_floor) return;
    layer_norm(keys.row(r), weights.k_norm->data(), weights.k_norm_bias->data(), shape.width, keys.row(r));
    turn(store, keys.row(r), 1, shape.width, angles, r);
    const MutableRow row = run.cache->mutable_row(store.id, batch.position[r]);
    compute.kernels.encode_row(store.row, keys.row(r), row.data, row.scale);
  });
  for (const FlatRun& run : batch.runs) run.cache->ledger().wrote(store.id, run.rows_written());
}

void select_by_index(Compute& compute, const SparseIndexShape& shape, const SparseIndexWeights& weights,
                     const TokenBatch& batch, int layer, const Store& store, const RopeAngles& angles,
                     MatrixView<const float> qr, MatrixView<const float> x, Selection& selection) {
  Arena::Scope scope(compute.arena);
  const PartScope part(compute.profile, StepPart::kIndexer);
  MatrixView<float> queries = compute.arena.matrix(batch.count, std::int64_t{shape.heads} * shape.width);
  MatrixView<float> head_weights = compute.arena.matrix(batch.count, shape.heads);
  linear(compute, weights.wq_b, shape.quantizer, qr, queries, compute.settings.arithmetic);
  linear(compute, weights.weights_proj, BlockQuantizer::kNone, x, head_weights, Arithmetic::kF32);
  const auto factor = static_cast<float>(1.0 / std::sqrt(static_cast<double>(shape.heads)) /
                                         std::sqrt(static_cast<double>(shape.width)));
  for_rows(compute, batch.count, [&](std::int64_t r) {
    turn(store, queries.row(r), shape.heads, shape.width, angles, r);
    for (int h = 0; h < shape.heads; ++h) head_weights.row(r)[h] *= factor;
  });
  IndexRequest request;
  request.layer = layer;
  request.keys = &store;
  request.queries = queries;
  request.weights = head_weights;
  request.heads = shape.heads;
  request.rows = &selection;
  select_rows(compute, batch, request);
}

}  // namespace seekline
