#include "model/dense_block.h"

#include <cmath>

#include "kernels/linear.h"

namespace seekline {

void norm_rows(Compute& compute, const std::vector<float>& weight, float eps, MatrixView<const float> x,
               MatrixView<float> y) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, x.rows,
           [&](std::int64_t r) { compute.kernels.rms_norm(x.row(r), weight.data(), x.cols, eps, y.row(r)); });
}

void add_linear(Compute& compute, const WeightView& w, MatrixView<const float> x, MatrixView<float> y) {
  const Product product{w,
                        prepare_rows(compute, w.kind, compute.settings.arithmetic, BlockQuantizer::kNone, x),
                        row_pointers(compute, y), true};
  run_products(compute, {&product, 1});
}

DenseProjections project(Compute& compute, const WeightView& q, const WeightView& k, const WeightView& v,
                         MatrixView<const float> x) {
  const DenseProjections out{compute.arena.matrix(x.rows, q.rows),
                             compute.arena.matrix(x.rows, k.rows + v.rows)};
  const WeightKind kind = q.empty() ? k.kind : q.kind;
  const PreparedRows input =
      prepare_rows(compute, kind, compute.settings.arithmetic, BlockQuantizer::kNone, x);
  Product* products = compute.arena.array<Product>(3);
  std::size_t count = 0;
  const auto add = [&](const WeightView& w, MatrixView<float> y) {
    if (!w.empty()) new (products + count++) Product{w, input, row_pointers(compute, y)};
  };
  add(q, out.q);
  add(k, out.kv.cols_from(0, k.rows));
  add(v, out.kv.cols_from(k.rows, v.rows));
  run_products(compute, {products, count});
  return out;
}

void rotate_heads(Compute& compute, MatrixView<float> x, int heads, std::int64_t width,
                  const RopeAngles& angles) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, x.rows, [&](std::int64_t r) {
    for (int head = 0; head < heads; ++head)
      rotate(x.row(r) + head * width, angles.cos_row(r), angles.sin_row(r), angles.pairs,
             RopeLayout::kHalfSplit);
  });
}

void write_rows(Compute& compute, const TokenBatch& batch, const Store& store, MatrixView<const float> kv) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, batch.count, [&](std::int64_t r) {
    if (batch.position[r] < batch.run(r).write_floor) return;
    const MutableRow row = batch.run(r).cache->mutable_row(store.id, batch.position[r]);
    compute.kernels.encode_row(store.row, kv.row(r), row.data, row.scale);
  });
  for (const FlatRun& run : batch.runs) run.cache->ledger().wrote(store.id, run.rows_written());
}

DenseShape dense_shape(const LlamaConfig& c) {
  DenseShape shape;
  shape.heads = static_cast<int>(c.num_attention_heads);
  shape.kv_heads = static_cast<int>(c.num_key_value_heads);
  shape.key_width = shape.value_width = static_cast<int>(c.head_dim);
  shape.value_first = static_cast<int>(c.num_key_value_heads * c.head_dim);
  shape.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
  return shape;
}

void dense_feed_forward(Compute& compute, const LlamaLayerWeights& w, float eps, MatrixView<float> h) {
  const PartScope part(compute.profile, StepPart::kFeedForward);
  Arena::Scope scope(compute.arena);
  MatrixView<float> x = compute.arena.matrix(h.rows, h.cols);
  norm_rows(compute, w.post_attention_layernorm, eps, h, x);
  MatrixView<float> gate = compute.arena.matrix(h.rows, w.gate_proj.rows);
  MatrixView<float> up = compute.arena.matrix(h.rows, w.up_proj.rows);
  const PreparedRows input =
      prepare_rows(compute, w.gate_proj.kind, compute.settings.arithmetic, BlockQuantizer::kNone, x);
  const Product products[] = {{w.gate_proj, input, row_pointers(compute, gate)},
                              {w.up_proj, input, row_pointers(compute, up)}};
  run_products(compute, products);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    compute.kernels.swiglu(gate.row(r), up.row(r), gate.cols, 0, 1.0f, gate.row(r));
  });
  add_linear(compute, w.down_proj, gate, h);
}

}  // namespace seekline
