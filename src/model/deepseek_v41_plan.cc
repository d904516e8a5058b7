#include "model/deepseek_v41_plan.h"

#include "attention/compressor.h"
#include "model/plan_parts.h"

namespace seekline {
namespace {

// Main rows, index keys and, for m > 1, the compressor's state.
void add_source_stores(V41Plan& out, const V41Config& c, int layer, Rows rows) {
  CachePlan& plan = out.plan;
  V41LayerStores& stores = out.layers[static_cast<std::size_t>(layer)];
  const std::int64_t m = c.compress_ratios[static_cast<std::size_t>(layer)];
  stores.main =
      add_store(plan, layer, StoreKind::kMain, row_format(rows, RowKind::kV41Fp4, c.head_dim), m, 0, "main");
  stores.index_key = add_store(plan, layer, StoreKind::kIndexKey,
                               row_format(rows, RowKind::kIndexFp4, c.index_head_dim), m, 0, "index_key");
  if (m > 1) {
    const CompressorShape shape{static_cast<int>(m), static_cast<int>(c.head_dim)};
    stores.tail = add_store(plan, layer, StoreKind::kTail, {RowKind::kF32, static_cast<int>(2 * c.head_dim)},
                            1, compressor_tail_rows(shape), "tail");
  }
}

Select select_of(const V41Config& c, std::int64_t layer, std::int64_t latest, StoreId index) {
  Select select;
  if (!c.is_index_source(layer)) {
    select.how = Select::How::kLatest;
    select.of_layer = static_cast<int>(latest);
    return select;
  }
  const bool pooled = c.candidate_source_layer_id >= 0 && layer > c.candidate_source_layer_id;
  select.heads = static_cast<int>(c.index_n_heads);
  select.how = pooled ? Select::How::kPooledTopK : Select::How::kTopK;
  select.k = static_cast<int>(c.index_topk);
  select.index = index;
  if (pooled) select.pool_of = static_cast<int>(c.candidate_source_layer_id);
  return select;
}

}  // namespace

V41Plan plan_v41(const V41Config& c, Rows rows) {
  V41Plan out;
  CachePlan& plan = out.plan;
  plan.model = "deepseek_v41";
  plan.window = static_cast<int>(c.sliding_window);
  if (c.candidate_source_layer_id >= 0) {
    plan.pool_blocks = static_cast<int>(c.candidate_topk_blocks);
    plan.pool_block_rows = static_cast<int>(c.candidate_block_size);
  }
  plan.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  out.layers.resize(plan.layers.size());
  const std::int64_t decoder =
      c.kv_source_layer_ids.empty() ? c.num_hidden_layers : c.kv_source_layer_ids.back();
  std::int64_t latest = -1;
  for (std::int64_t l = 0; l < c.num_hidden_layers; ++l) {
    const int layer = static_cast<int>(l);
    LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(l)];
    V41LayerStores& stores = out.layers[static_cast<std::size_t>(l)];
    layer_plan.heads = static_cast<int>(c.num_attention_heads);
    layer_plan.key_width = layer_plan.value_width = static_cast<int>(c.head_dim);
    layer_plan.part = l >= decoder ? Part::kDecoder : Part::kEncoder;
    stores.window = add_store(plan, layer, StoreKind::kWindow, row_format(rows, RowKind::kV41Fp8, c.head_dim),
                              1, c.sliding_window, "window");
    layer_plan.window = stores.window;
    if (c.is_kv_source(l)) add_source_stores(out, c, layer, rows);
    const std::int64_t source = c.kv_source_of(l);
    if (source < 0) continue;
    const V41LayerStores& shared = out.layers[static_cast<std::size_t>(source)];
    layer_plan.main = shared.main;
    layer_plan.select = select_of(c, l, latest, shared.index_key);
    if (c.is_index_source(l)) latest = l;
    layer_plan.makes_pool = l == c.candidate_source_layer_id;
  }
  return out;
}

}  // namespace seekline
