// The tensors of DeepSeek-V4.1, described once for loading and for listing.
#include "checkpoint/deepseek_v41.h"

#include <fmt/format.h>

#include "checkpoint/latent_block.h"
#include "checkpoint/tensor_visitor.h"

namespace seekline {
namespace {

using Role = TensorRole;

// What backbone layers and draft stages have in common; `p` is "layers.3." or "mtp.0.".
void visit_block(TensorVisitor& v, const V41Config& c, V41LayerWeights& w, const std::string& p,
                 std::int64_t experts) {
  visit_latent_attention(v, c, w, p);
  visit_hyper_connections(v, c, w, p);
  v.vector(w.gate_bias, p + "ffn.gate.bias", DType::kF32, {experts}, Role::kBias);
  v.vector(w.gate_bias_vl, p + "ffn.gate.bias_vl", DType::kF32, {experts}, Role::kBias, !c.has_vision);
  visit_experts(v, c, w, p, experts);
}

void visit_sources(TensorVisitor& v, const V41Config& c, V41LayerWeights& w, const std::string& p,
                   std::int64_t layer) {
  if (c.is_kv_source(layer)) {
    v.plain(w.compressor_wkv, p + "attn.compressor.wkv.weight", DType::kBF16, c.head_dim, c.hidden_size);
    v.norm(w.compressor_norm, p + "attn.compressor.norm.weight", c.head_dim);
    if (c.compress_ratios[static_cast<std::size_t>(layer)] > 1)
      v.plain(w.compressor_wgate, p + "attn.compressor.wgate.weight", DType::kBF16, c.head_dim,
              c.hidden_size);
  }
  if (!c.is_index_source(layer)) return;
  v.linear(w.indexer_wq_b, p + "attn.indexer.wq_b.weight", c.index_n_heads * c.index_head_dim, c.q_lora_rank);
  v.plain(w.indexer_weights_proj, p + "attn.indexer.weights_proj.weight", DType::kBF16, c.index_n_heads,
          c.hidden_size);
  if (!c.is_kv_source(layer)) return;
  v.plain(w.indexer_wk, p + "attn.indexer.wk.weight", DType::kBF16, c.index_head_dim, c.head_dim);
  v.norm(w.indexer_k_norm, p + "attn.indexer.k_norm.weight", c.index_head_dim);
}

void visit_engram(TensorVisitor& v, const V41Config& c, EngramWeights& w, std::size_t index) {
  const std::string p = fmt::format("layers.{}.engram.", c.engram_layer_ids[index]);
  const std::int64_t columns = (c.engram_max_ngram_size - 1) * c.engram_n_heads;
  v.table(w.table, p + "embed.weight", c.engram_num_embeddings[index], c.engram_head_dim);
  v.linear(w.wkv, p + "wkv.weight", (c.hc_mult + 1) * c.hidden_size, columns * c.engram_head_dim);
  v.vector(w.q_weight, p + "q_weight", DType::kBF16, {c.hc_mult, c.hidden_size}, Role::kNorm);
  v.vector(w.k_weight, p + "k_weight", DType::kBF16, {c.hc_mult, c.hidden_size}, Role::kNorm);
}

void visit_layer(TensorVisitor& v, const V41Config& c, V41LayerWeights& w, std::int64_t layer) {
  const std::string p = fmt::format("layers.{}.", layer);
  visit_block(v, c, w, p, c.n_routed_experts);
  visit_sources(v, c, w, p, layer);
}

void visit_draft(TensorVisitor& v, const V41Config& c, V41DraftWeights& w, std::int64_t stage) {
  const std::string p = fmt::format("mtp.{}.", stage);
  const auto targets = static_cast<std::int64_t>(c.draft_target_layers.size());
  visit_block(v, c, w.layer, p, c.draft_experts);
  if (stage == 0) {
    v.linear(w.main_proj, p + "main_proj.weight", c.hidden_size, targets * c.hidden_size);
    v.norm(w.main_norm, p + "main_norm.weight", c.hidden_size);
  }
  if (stage + 1 != c.num_draft_stages) return;
  v.norm(w.norm, p + "norm.weight", c.hidden_size);
  v.plain(w.markov_embed, p + "markov_head.embed.weight", DType::kBF16, c.vocab_size, c.draft_markov_rank,
          Role::kEmbedding);
  v.plain(w.markov_head, p + "markov_head.head.weight", DType::kBF16, c.vocab_size, c.draft_markov_rank);
  v.plain(w.confidence, p + "confidence_head.proj.weight", DType::kBF16, 1,
          c.hidden_size + c.draft_markov_rank);
}

// The tower is listed for synthetic checkpoints only, so its weights have no place to go.
void visit_vision(TensorVisitor& v, const V41Config& c) {
  const VisionConfig& tower = c.vision;
  WeightView matrix;
  std::vector<float> values;
  const std::int64_t width = tower.hidden_size;
  const std::int64_t unfolded = width * tower.downsample_ratio * tower.downsample_ratio;
  const auto biased = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    v.plain(matrix, name + ".weight", DType::kBF16, out, in);
    v.vector(values, name + ".bias", DType::kBF16, {out}, Role::kBias);
  };
  biased("vision.patch_embed.proj", width, 3 * tower.patch_size * tower.patch_size);
  for (std::int64_t block = 0; block < tower.num_hidden_layers; ++block) {
    const std::string p = fmt::format("vision.blocks.{}.", block);
    v.norm(values, p + "norm1.weight", width);
    biased(p + "attn.wqkv", 3 * width, width);
    biased(p + "attn.wo", width, width);
    v.norm(values, p + "norm2.weight", width);
    v.plain(matrix, p + "mlp.w1.weight", DType::kBF16, 2 * tower.intermediate_size, width);
    v.plain(matrix, p + "mlp.w2.weight", DType::kBF16, width, tower.intermediate_size);
  }
  v.norm(values, "vision.norm.weight", width);
  biased("aligner.w1", c.hidden_size, unfolded);
  biased("aligner.w2", c.hidden_size, c.hidden_size);
}

ScaleRule scale_rule(const V41Config& c) {
  return {".scale", ScaleKind::kUE8M0, c.weight_block, c.weight_block};
}

}  // namespace

V41Weights load_v41_weights(const V41Config& config, WeightSet& set) {
  LoadVisitor v(set, scale_rule(config));
  V41Weights w;
  v.plain(w.embed, "embed.weight", DType::kBF16, config.vocab_size, config.hidden_size, Role::kEmbedding);
  w.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t layer = 0; layer < w.layers.size(); ++layer)
    visit_layer(v, config, w.layers[layer], static_cast<std::int64_t>(layer));
  for (std::size_t i = 0; i < config.engram_layer_ids.size(); ++i)
    visit_engram(v, config, w.layers[static_cast<std::size_t>(config.engram_layer_ids[i])].engram, i);
  v.norm(w.norm, "norm.weight", config.hidden_size);
  v.plain(w.head, "head.weight", DType::kBF16, config.vocab_size, config.hidden_size, Role::kLinear);
  set.unused("mtp.", "draft stages, which this run does not use");
  for (const char* prefix : {"vision.", "aligner.", "image_start", "image_newline", "image_end"})
    set.unused(prefix, "vision, which this run does not use");
  return w;
}

std::vector<V41DraftWeights> load_v41_draft_weights(const V41Config& config, WeightSet& set) {
  LoadVisitor v(set, scale_rule(config));
  std::vector<V41DraftWeights> stages(static_cast<std::size_t>(config.num_draft_stages));
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    visit_draft(v, config, stages[stage], static_cast<std::int64_t>(stage));
  return stages;
}

std::vector<TensorSpec> v41_tensor_specs(const V41Config& config) {
  SpecVisitor v(DType::kF8E4M3, SpecVisitor::Experts::kE2M1, scale_rule(config));
  WeightView matrix;
  std::vector<float> values;
  if (config.has_vision) {
    visit_vision(v, config);
    v.next_shard();
  }
  v.plain(matrix, "embed.weight", DType::kBF16, config.vocab_size, config.hidden_size, Role::kEmbedding);
  if (config.has_vision)
    for (const char* name : {"image_start", "image_newline", "image_end"})
      v.vector(values, name, DType::kBF16, {config.hidden_size}, Role::kEmbedding, false);
  v.next_shard();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer, v.next_shard()) {
    V41LayerWeights unused;
    visit_layer(v, config, unused, layer);
  }
  v.plain(matrix, "head.weight", DType::kBF16, config.vocab_size, config.hidden_size, Role::kLinear);
  v.norm(values, "norm.weight", config.hidden_size);
  v.next_shard();
  for (std::int64_t stage = 0; stage < config.num_draft_stages; ++stage, v.next_shard()) {
    V41DraftWeights unused;
    visit_draft(v, config, unused, stage);
  }
  for (std::size_t i = 0; i < config.engram_layer_ids.size(); ++i, v.next_shard()) {
    EngramWeights unused;
    visit_engram(v, config, unused, i);
  }
  return v.take();
}

}  // namespace seekline
