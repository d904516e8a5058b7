// The tensors of DeepSeek-V4, described once for loading and for listing.
#include "checkpoint/deepseek_v4.h"

#include <fmt/format.h>

#include "checkpoint/latent_block.h"
#include "checkpoint/tensor_visitor.h"

namespace seekline {
namespace {

using Role = TensorRole;

// `out` channels; groups that overlap have twice as many inside, one half for each of the two groups they
// serve.
void visit_compressor(TensorVisitor& v, const V4Config& c, CompressorWeights& w, const std::string& p,
                      std::int64_t out, std::int64_t ratio) {
  const std::int64_t width = ratio == V4Config::kCsaRatio ? 2 * out : out;
  v.plain(w.wkv, p + "wkv.weight", DType::kBF16, width, c.hidden_size);
  v.plain(w.wgate, p + "wgate.weight", DType::kBF16, width, c.hidden_size);
  v.vector(w.ape, p + "ape", DType::kF32, {ratio, width}, Role::kPosition);
  v.norm(w.norm, p + "norm.weight", out);
}

void visit_layer(TensorVisitor& v, const V4Config& c, V4LayerWeights& w, std::int64_t layer) {
  const std::string p = fmt::format("layers.{}.", layer);
  visit_latent_attention(v, c, w, p);
  visit_hyper_connections(v, c, w, p);
  if (const std::int64_t ratio = c.compress_ratios[static_cast<std::size_t>(layer)]; ratio != 0)
    visit_compressor(v, c, w.compressor, p + "attn.compressor.", c.head_dim, ratio);
  if (c.is_csa(layer)) {
    v.linear(w.indexer_wq_b, p + "attn.indexer.wq_b.weight", c.index_n_heads * c.index_head_dim,
             c.q_lora_rank);
    v.plain(w.indexer_weights_proj, p + "attn.indexer.weights_proj.weight", DType::kBF16, c.index_n_heads,
            c.hidden_size);
    visit_compressor(v, c, w.indexer_compressor, p + "attn.indexer.compressor.", c.index_head_dim,
                     V4Config::kCsaRatio);
  }
  if (layer < c.num_hash_layers) {
    v.expert_ids(w.token_experts, p + "ffn.gate.tid2eid", c.vocab_size, c.num_experts_per_tok,
                 c.n_routed_experts);
  } else {
    v.vector(w.gate_bias, p + "ffn.gate.bias", DType::kF32, {c.n_routed_experts}, Role::kBias);
  }
  visit_experts(v, c, w, p, c.n_routed_experts);
}

void visit_hyper_head(TensorVisitor& v, const V4Config& c, HyperConnectionWeights& w, const std::string& p) {
  v.plain(w.fn, p + "hc_head_fn", DType::kF32, c.hc_mult, c.hc_mult * c.hidden_size);
  v.vector(w.base, p + "hc_head_base", DType::kF32, {c.hc_mult}, Role::kBias);
  v.vector(w.scale, p + "hc_head_scale", DType::kF32, {1}, Role::kNorm);
}

// Draft stages are listed for synthetic checkpoints only, so their weights have no place to go.
void visit_draft(TensorVisitor& v, const V4Config& c, std::int64_t stage) {
  const std::string p = fmt::format("mtp.{}.", stage);
  const std::int64_t hidden = c.hidden_size;
  V4LayerWeights block;
  WeightView matrix;
  std::vector<float> values;
  HyperConnectionWeights hyper_head;
  visit_latent_attention(v, c, block, p);
  visit_hyper_connections(v, c, block, p);
  v.vector(block.gate_bias, p + "ffn.gate.bias", DType::kF32, {c.n_routed_experts}, Role::kBias);
  visit_experts(v, c, block, p, c.n_routed_experts);
  if (!c.dspark) {
    v.linear(matrix, p + "e_proj.weight", hidden, hidden);
    v.linear(matrix, p + "h_proj.weight", hidden, hidden);
    for (const char* name : {"enorm.weight", "hnorm.weight", "norm.weight"}) v.norm(values, p + name, hidden);
    visit_hyper_head(v, c, hyper_head, p);
    return;
  }
  if (stage == 0) {
    v.linear(matrix, p + "main_proj.weight", hidden,
             static_cast<std::int64_t>(c.draft_target_layers.size()) * hidden);
    v.norm(values, p + "main_norm.weight", hidden);
  }
  if (stage + 1 != c.num_draft_stages) return;
  v.norm(values, p + "norm.weight", hidden);
  visit_hyper_head(v, c, hyper_head, p);
  v.plain(matrix, p + "markov_head.markov_w1.weight", DType::kBF16, c.vocab_size, c.draft_markov_rank,
          Role::kEmbedding);
  v.plain(matrix, p + "markov_head.markov_w2.weight", DType::kBF16, c.vocab_size, c.draft_markov_rank,
          Role::kLinear);
  v.plain(matrix, p + "confidence_head.proj.weight", DType::kBF16, 1, hidden + c.draft_markov_rank,
          Role::kLinear);
}

void visit_end(TensorVisitor& v, const V4Config& c, V4Weights& w) {
  v.norm(w.norm, "norm.weight", c.hidden_size);
  v.plain(w.head, "head.weight", DType::kBF16, c.vocab_size, c.hidden_size, Role::kLinear);
  visit_hyper_head(v, c, w.hc_head, "");
}

ScaleRule scale_rule(const V4Config& c) {
  return {".scale", ScaleKind::kUE8M0, c.weight_block, c.weight_block};
}

}  // namespace

V4Weights load_v4_weights(const V4Config& config, WeightSet& set) {
  LoadVisitor v(set, scale_rule(config));
  V4Weights w;
  v.plain(w.embed, "embed.weight", DType::kBF16, config.vocab_size, config.hidden_size, Role::kEmbedding);
  w.layers.resize(static_cast<std::size_t>(config.num_hidden_layers));
  for (std::size_t layer = 0; layer < w.layers.size(); ++layer)
    visit_layer(v, config, w.layers[layer], static_cast<std::int64_t>(layer));
  visit_end(v, config, w);
  set.unused("mtp.", "draft stages, which this run does not use");
  return w;
}

std::vector<TensorSpec> v4_tensor_specs(const V4Config& config) {
  SpecVisitor v(DType::kF8E4M3, SpecVisitor::Experts::kE2M1, scale_rule(config));
  V4Weights unused;
  v.plain(unused.embed, "embed.weight", DType::kBF16, config.vocab_size, config.hidden_size,
          Role::kEmbedding);
  v.next_shard();
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer, v.next_shard()) {
    V4LayerWeights weights;
    visit_layer(v, config, weights, layer);
  }
  visit_end(v, config, unused);
  v.next_shard();
  for (std::int64_t stage = 0; stage < config.num_draft_stages; ++stage, v.next_shard())
    visit_draft(v, config, stage);
  return v.take();
}

}  // namespace seekline
