#include "model/deepseek_mla_plan.h"

#include "model/plan_parts.h"

namespace seekline {
namespace {

const char* family_of(MlaConfig::Generation generation) {
  switch (generation) {
    case MlaConfig::Generation::kV2:
      return "deepseek_v2";
    case MlaConfig::Generation::kV3:
      return "deepseek_v3";
    case MlaConfig::Generation::kV32:
      return "deepseek_v32";
  }
  return "";
}

// `kind` with the scales that the config's `scale_fmt` asks for; bf16 and f32 rows have neither scales nor
// tail.
RowFormat format_of(const MlaConfig& c, Rows rows, RowKind kind, std::int64_t width, std::int64_t tail) {
  if (rows == Rows::kBF16) kind = RowKind::kBF16;
  if (rows == Rows::kF32) kind = RowKind::kF32;
  if (kind == RowKind::kBF16 || kind == RowKind::kF32) return {kind, static_cast<int>(width)};
  return {kind, static_cast<int>(width), static_cast<int>(tail), c.pow2_scales};
}

}  // namespace

MlaPlan plan_mla(const MlaConfig& c, Rows rows) {
  const RowKind main =
      c.has_indexer() || rows == Rows::kFp8 ? RowKind::kMlaFp8 : RowKind::kBF16;  // as deployed
  const RowFormat main_row =
      format_of(c, rows, main, c.kv_lora_rank + c.qk_rope_head_dim, c.qk_rope_head_dim);
  MlaPlan out;
  CachePlan& plan = out.plan;
  plan.model = family_of(c.generation);
  plan.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  out.layers.resize(plan.layers.size());
  for (int layer = 0; layer < static_cast<int>(c.num_hidden_layers); ++layer) {
    LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(layer)];
    MlaLayerStores& own = out.layers[static_cast<std::size_t>(layer)];
    own.main = add_store(plan, layer, StoreKind::kMain, main_row, 1, 0, "main");
    layer_plan.main = own.main;
    layer_plan.heads = static_cast<int>(c.num_attention_heads);
    layer_plan.key_width = main_row.width;
    layer_plan.value_width = static_cast<int>(c.kv_lora_rank);
    layer_plan.select.how = Select::How::kAll;
    if (!c.has_indexer()) continue;
    own.index_key = add_store(plan, layer, StoreKind::kIndexKey,
                              format_of(c, rows, RowKind::kIndexFp8, c.index_head_dim, 0), 1, 0, "index_key");
    layer_plan.select = {Select::How::kTopK,
                         static_cast<int>(c.index_topk),
                         own.index_key,
                         -1,
                         -1,
                         static_cast<int>(c.index_n_heads)};
  }
  return out;
}

}  // namespace seekline
