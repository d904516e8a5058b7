#include "model/deepseek_v4_plan.h"

#include "model/plan_parts.h"

namespace seekline {
namespace {

// State of a compressor: (c, z) of the tokens that an unfinished group can still need, f32 whatever the rows
// are.
StoreId add_tail(CachePlan& plan, int layer, const CompressorShape& shape, const char* what) {
  const int members = shape.overlap ? 2 * shape.width : shape.width;  // channels of c and of z
  return add_store(plan, layer, StoreKind::kTail, {RowKind::kF32, 2 * members}, 1,
                   compressor_tail_rows(shape), what);
}

void add_compressed_stores(CachePlan& plan, V4LayerStores& stores, const V4Config& c, int layer, Rows rows) {
  LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(layer)];
  const std::int64_t m = c.compress_ratios[static_cast<std::size_t>(layer)];
  stores.main = add_store(plan, layer, StoreKind::kMain,
                          row_format(rows, RowKind::kV4Fp8, c.head_dim, c.qk_rope_head_dim), m, 0, "main");
  stores.tail = add_tail(plan, layer, v4_compressor_shape(c, layer, c.head_dim), "tail");
  layer_plan.main = stores.main;
  layer_plan.select.how = Select::How::kAll;
  if (!c.is_csa(layer)) return;
  stores.index_key = add_store(plan, layer, StoreKind::kIndexKey,
                               row_format(rows, RowKind::kIndexFp4, c.index_head_dim), m, 0, "index_key");
  stores.index_tail = add_tail(plan, layer, v4_compressor_shape(c, layer, c.index_head_dim), "index_tail");
  layer_plan.select.how = Select::How::kTopK;
  layer_plan.select.k = static_cast<int>(c.index_topk);
  layer_plan.select.index = stores.index_key;
  layer_plan.select.heads = static_cast<int>(c.index_n_heads);
}

}  // namespace

CompressorShape v4_compressor_shape(const V4Config& c, std::int64_t layer, std::int64_t width) {
  return {static_cast<int>(c.compress_ratios[static_cast<std::size_t>(layer)]), static_cast<int>(width),
          c.is_csa(layer), static_cast<float>(c.rms_norm_eps)};
}

V4Plan plan_v4(const V4Config& c, Rows rows) {
  V4Plan out;
  CachePlan& plan = out.plan;
  plan.model = "deepseek_v4";
  plan.window = static_cast<int>(c.sliding_window);
  plan.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  out.layers.resize(plan.layers.size());
  for (int layer = 0; layer < static_cast<int>(c.num_hidden_layers); ++layer) {
    V4LayerStores& stores = out.layers[static_cast<std::size_t>(layer)];
    stores.window = add_store(plan, layer, StoreKind::kWindow,
                              row_format(rows, RowKind::kV4Fp8, c.head_dim, c.qk_rope_head_dim), 1,
                              c.sliding_window, "window");
    LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(layer)];
    layer_plan.window = stores.window;
    layer_plan.heads = static_cast<int>(c.num_attention_heads);
    layer_plan.key_width = layer_plan.value_width = static_cast<int>(c.head_dim);
    if (c.compress_ratios[static_cast<std::size_t>(layer)] != 0)
      add_compressed_stores(plan, stores, c, layer, rows);
  }
  return out;
}

}  // namespace seekline
