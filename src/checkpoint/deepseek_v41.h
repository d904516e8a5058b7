// DeepSeek-V4.1: config.json and official tensor names -> typed geometry and weights (spec: v41,
// checkpoints).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/shared_weights.h"
#include "checkpoint/tensor_spec.h"
#include "checkpoint/weight_set.h"
#include "checkpoint/yarn.h"

namespace seekline {

/// The vision tower's geometry; names as in vision_config.
struct VisionConfig {
  std::int64_t num_hidden_layers = 0, hidden_size = 0, num_attention_heads = 0, intermediate_size = 0;
  std::int64_t patch_size = 0, downsample_ratio = 0, max_image_tokens = 0, min_pixels = 0;
  double rope_theta = 0, max_wh_ratio = 0;  ///< max_wh_ratio 0: no limit
};

/// Geometry of `model_type: deepseek_v41`; names as in config.json's text_config.
struct V41Config {
  std::int64_t vocab_size, hidden_size, moe_intermediate_size, num_hidden_layers;
  std::int64_t num_attention_heads, head_dim, qk_rope_head_dim, q_lora_rank, o_lora_rank, o_groups;
  std::int64_t n_routed_experts, n_shared_experts, num_experts_per_tok;
  bool norm_topk_prob = true;
  double routed_scaling_factor, swiglu_limit, rms_norm_eps, gate_temp = 1.0;
  double rope_theta, compress_rope_theta;
  RopeScaling rope_scaling;
  std::int64_t max_position_embeddings;
  std::int64_t sliding_window;
  std::vector<std::int64_t> compress_ratios;  ///< one per backbone layer; entries of draft stages are cut off
  std::vector<std::int64_t> kv_source_layer_ids, index_source_layer_ids;
  std::int64_t index_n_heads, index_head_dim, index_topk;
  std::int64_t candidate_source_layer_id = -1;  ///< -1: no pool
  std::int64_t candidate_topk_blocks = 0, candidate_block_size = 0;
  std::int64_t hc_mult, hc_sinkhorn_iters;
  double hc_eps;
  std::vector<std::int64_t> engram_layer_ids, engram_num_embeddings;
  std::int64_t engram_max_ngram_size = 0, engram_vocab_size = 0, engram_n_heads = 0, engram_head_dim = 0;
  std::int64_t engram_pad_token_id = 0, engram_compressed_vocab_size = 0;
  std::int64_t num_draft_stages = 0;  ///< as the config says; count_draft_stages tells how many there are
  std::int64_t draft_experts = 0, draft_experts_per_tok = 0, draft_markov_rank = 0, draft_block_size = 0;
  std::int64_t draft_noise_token = 0;
  std::vector<std::int64_t> draft_target_layers;
  bool has_vision = false;
  VisionConfig vision;
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t bos_token_id = -1, image_token_id = -1;  ///< -1: none
  int weight_block = 32;

  bool is_kv_source(std::int64_t layer) const;
  bool is_index_source(std::int64_t layer) const;
  bool is_engram(std::int64_t layer) const;
  /// The KV source at or before `layer` whose store it reads; -1 where compress_ratios is 0.
  std::int64_t kv_source_of(std::int64_t layer) const;
};

/// Throws Error(kUnsupported | kBadFile) naming every key that is missing, absurd, contradictory or unknown.
V41Config parse_v41_config(const nlohmann::json& config, const std::string& subject);

struct EngramWeights {
  WeightView table;                       ///< E4M3 [rows, engram_head_dim], one ue8m0 per row and 32 channels
  WeightView wkv;                         ///< [(hc + 1) * hidden, ngram columns * engram_head_dim]
  std::vector<float> q_weight, k_weight;  ///< [hc, hidden]
};

struct V41LayerWeights {
  std::vector<float> attn_norm, ffn_norm;
  WeightView wq_a, wq_b, wkv, wo_a, wo_b;  ///< wo_a: [o_groups * o_lora_rank, heads * head_dim / o_groups]
  std::vector<float> q_norm, kv_norm, attn_sink;
  // KV sources
  WeightView compressor_wkv, compressor_wgate;  ///< wgate empty at m = 1
  std::vector<float> compressor_norm;
  // index sources; wk and k_norm only where the layer is a KV source as well
  WeightView indexer_wq_b, indexer_weights_proj, indexer_wk;
  std::vector<float> indexer_k_norm;
  // FFN
  WeightView gate;
  std::vector<float> gate_bias;
  std::vector<float> gate_bias_vl;  ///< for image tokens; empty where a text-only checkpoint lacks it
  std::vector<ExpertWeights> experts;
  std::vector<ExpertWeights> shared_experts;  ///< 0 or 1
  HyperConnectionWeights hc_attn, hc_ffn;
  EngramWeights engram;  ///< table empty where the layer has none
};

struct V41Weights {
  WeightView embed, head;  ///< [vocab, hidden]
  std::vector<float> norm;
  std::vector<V41LayerWeights> layers;
};

/// One DSpark stage: a window-only layer, and what only the first or the last stage has.
struct V41DraftWeights {
  V41LayerWeights layer;
  WeightView main_proj;  ///< first stage: [hidden, target layers * hidden]
  std::vector<float> main_norm, norm;
  WeightView markov_embed, markov_head;  ///< last stage: [vocab, draft_markov_rank]
  WeightView confidence;                 ///< last stage: [1, hidden + draft_markov_rank]
};

/// Takes the text model's tensors; whatever of the draft stages (`mtp.`) and vision nobody has taken from the
/// set is marked present and unused. `set.finish()` is the caller's.
V41Weights load_v41_weights(const V41Config& config, WeightSet& set);

/// Takes the draft stages' tensors, config.num_draft_stages of them; call it before load_v41_weights.
std::vector<V41DraftWeights> load_v41_draft_weights(const V41Config& config, WeightSet& set);

/// Every tensor of a checkpoint with this config, in the released shard order; for `seekline synth`.
std::vector<TensorSpec> v41_tensor_specs(const V41Config& config);

}  // namespace seekline
