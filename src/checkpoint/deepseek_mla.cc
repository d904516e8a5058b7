// The tensors of DeepSeek-V2, V3 and V3.2, described once for loading and for listing.
#include "checkpoint/deepseek_mla.h"

#include <fmt/format.h>

#include <optional>

#include "checkpoint/tensor_visitor.h"

namespace seekline {
namespace {

using Role = TensorRole;
using Matrix = void (TensorVisitor::*)(WeightView&, const std::string&, std::int64_t, std::int64_t);

void visit_ffn(TensorVisitor& v, ExpertWeights& w, const std::string& p, std::int64_t hidden,
               std::int64_t width, Matrix matrix) {
  (v.*matrix)(w.w1, p + "gate_proj.weight", width, hidden);
  (v.*matrix)(w.w3, p + "up_proj.weight", width, hidden);
  (v.*matrix)(w.w2, p + "down_proj.weight", hidden, width);
}

void visit_attention(TensorVisitor& v, const MlaConfig& c, MlaLayerWeights& w, const std::string& p) {
  const std::int64_t hidden = c.hidden_size, heads = c.num_attention_heads;
  const std::int64_t queries = heads * (c.qk_nope_head_dim + c.qk_rope_head_dim);
  if (c.q_lora_rank == 0) {
    v.linear(w.q_proj, p + "q_proj.weight", queries, hidden);
  } else {
    v.linear(w.q_a_proj, p + "q_a_proj.weight", c.q_lora_rank, hidden);
    v.norm(w.q_a_layernorm, p + "q_a_layernorm.weight", c.q_lora_rank);
    v.linear(w.q_b_proj, p + "q_b_proj.weight", queries, c.q_lora_rank);
  }
  v.linear(w.kv_a_proj, p + "kv_a_proj_with_mqa.weight", c.kv_lora_rank + c.qk_rope_head_dim, hidden);
  v.norm(w.kv_a_layernorm, p + "kv_a_layernorm.weight", c.kv_lora_rank);
  v.linear(w.kv_b_proj, p + "kv_b_proj.weight", heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank);
  v.linear(w.o_proj, p + "o_proj.weight", hidden, heads * c.v_head_dim);
  if (!c.has_indexer()) return;
  v.linear(w.indexer_wq_b, p + "indexer.wq_b.weight", c.index_n_heads * c.index_head_dim, c.q_lora_rank);
  v.linear(w.indexer_wk, p + "indexer.wk.weight", c.index_head_dim, hidden);
  v.norm(w.indexer_k_norm, p + "indexer.k_norm.weight", c.index_head_dim, DType::kF32);
  v.vector(w.indexer_k_norm_bias, p + "indexer.k_norm.bias", DType::kF32, {c.index_head_dim}, Role::kBias);
  v.plain(w.indexer_weights_proj, p + "indexer.weights_proj.weight", DType::kBF16, c.index_n_heads, hidden);
}

void visit_layer(TensorVisitor& v, const MlaConfig& c, MlaLayerWeights& w, std::int64_t layer) {
  const std::string p = fmt::format("model.layers.{}.", layer);
  v.norm(w.input_layernorm, p + "input_layernorm.weight", c.hidden_size);
  visit_attention(v, c, w, p + "self_attn.");
  v.norm(w.post_attention_layernorm, p + "post_attention_layernorm.weight", c.hidden_size);
  if (c.is_dense(layer))
    return visit_ffn(v, w.mlp, p + "mlp.", c.hidden_size, c.intermediate_size, &TensorVisitor::linear);
  v.plain(w.gate, p + "mlp.gate.weight", DType::kBF16, c.n_routed_experts, c.hidden_size);
  if (c.routing == MlaConfig::Routing::kGroupTopTwo)
    v.vector(w.gate_bias, p + "mlp.gate.e_score_correction_bias", DType::kF32, {c.n_routed_experts},
             Role::kBias);
  w.experts.resize(static_cast<std::size_t>(c.n_routed_experts));
  for (std::size_t e = 0; e < w.experts.size(); ++e)
    visit_ffn(v, w.experts[e], fmt::format("{}mlp.experts.{}.", p, e), c.hidden_size, c.moe_intermediate_size,
              &TensorVisitor::expert);
  if (c.n_shared_experts > 0)
    visit_ffn(v, w.shared, p + "mlp.shared_experts.", c.hidden_size,
              c.n_shared_experts * c.moe_intermediate_size, &TensorVisitor::linear);
}

// An MTP layer is a layer of the backbone with its own embedding, norms and head; listed for synthetic
// checkpoints only.
void visit_draft(TensorVisitor& v, const MlaConfig& c, std::int64_t layer) {
  const std::string p = fmt::format("model.layers.{}.", layer);
  MlaLayerWeights block;
  WeightView matrix;
  std::vector<float> values;
  v.plain(matrix, p + "embed_tokens.weight", DType::kBF16, c.vocab_size, c.hidden_size, Role::kEmbedding);
  v.norm(values, p + "enorm.weight", c.hidden_size);
  v.norm(values, p + "hnorm.weight", c.hidden_size);
  v.plain(matrix, p + "eh_proj.weight", DType::kBF16, c.hidden_size, 2 * c.hidden_size);
  visit_layer(v, c, block, layer);
  v.norm(values, p + "shared_head.norm.weight", c.hidden_size);
  v.plain(matrix, p + "shared_head.head.weight", DType::kBF16, c.vocab_size, c.hidden_size);
}

void visit_end(TensorVisitor& v, const MlaConfig& c, MlaWeights& w) {
  v.norm(w.norm, "model.norm.weight", c.hidden_size);
  v.plain(w.head, "lm_head.weight", DType::kBF16, c.vocab_size, c.hidden_size);
}

const ScaleRule kScales{".weight_scale_inv", ScaleKind::kF32, 128, 128};

}  // namespace

MlaWeights load_mla_weights(const MlaConfig& config, WeightSet& set) {
  LoadVisitor v(set, config.fp8 ? std::optional<ScaleRule>(kScales) : std::nullopt);
  MlaWeights w;
  v.plain(w.embed, "model.embed_tokens.weight", DType::kBF16, config.vocab_size, config.hidden_size,
          Role::kEmbedding);
  w.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t layer = 0; layer < w.layers.size(); ++layer)
    visit_layer(v, config, w.layers[layer], static_cast<std::int64_t>(layer));
  visit_end(v, config, w);
  for (std::int64_t draft = 0; draft < config.num_draft_layers; ++draft)
    set.unused(fmt::format("model.layers.{}.", config.num_hidden_layers + draft),
               "an MTP layer, which this run does not use");
  return w;
}

std::vector<TensorSpec> mla_tensor_specs(const MlaConfig& config) {
  SpecVisitor v(config.fp8 ? DType::kF8E4M3 : DType::kBF16, SpecVisitor::Experts::kAsLinears, kScales);
  MlaWeights unused;
  v.plain(unused.embed, "model.embed_tokens.weight", DType::kBF16, config.vocab_size, config.hidden_size,
          Role::kEmbedding);
  v.next_shard();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer, v.next_shard()) {
    MlaLayerWeights weights;
    visit_layer(v, config, weights, layer);
  }
  for (std::int64_t draft = 0; draft < config.num_draft_layers; ++draft, v.next_shard())
    visit_draft(v, config, config.num_hidden_layers + draft);
  visit_end(v, config, unused);
  return v.take();
}

}  // namespace seekline
