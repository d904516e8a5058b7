// DeepSeek-V4: config.json and official tensor names -> typed geometry and weights.
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

/// Geometry of `model_type: deepseek_v4`; names as in config.json.
struct V4Config {
  static constexpr std::int64_t kCsaRatio = 4;    ///< overlapping groups, an indexer selects
  static constexpr std::int64_t kHcaRatio = 128;  ///< every finished entry is read

  std::int64_t vocab_size, hidden_size, moe_intermediate_size, num_hidden_layers;
  std::int64_t num_attention_heads, head_dim, qk_rope_head_dim, q_lora_rank, o_lora_rank, o_groups;
  std::int64_t n_routed_experts, n_shared_experts, num_experts_per_tok;
  std::int64_t num_hash_layers;  ///< the first layers, which take expert ids from a table by token
  bool norm_topk_prob = true;
  double routed_scaling_factor, swiglu_limit, rms_norm_eps;
  double rope_theta, compress_rope_theta;
  RopeScaling rope_scaling;
  std::int64_t max_position_embeddings, sliding_window;
  std::vector<std::int64_t>
      compress_ratios;  ///< one per backbone layer: 0 (window only), kCsaRatio or kHcaRatio
  std::int64_t index_n_heads, index_head_dim, index_topk;
  std::int64_t hc_mult, hc_sinkhorn_iters;
  double hc_eps;
  /// Entries of compress_ratios beyond the backbone: 1 in the preview, 3 in -0731, whatever
  /// num_nextn_predict_layers says.
  std::int64_t num_draft_stages = 0;
  bool dspark = false;  ///< the drafts are DSpark stages (-0731), not the preview's MTP block
  std::int64_t draft_markov_rank = 0, draft_block_size = 0, draft_noise_token = 0;
  std::vector<std::int64_t> draft_target_layers;
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t bos_token_id = -1;  ///< -1: none
  int weight_block = 128;

  bool is_csa(std::int64_t layer) const {
    return compress_ratios[static_cast<std::size_t>(layer)] == kCsaRatio;
  }
  bool is_hca(std::int64_t layer) const {
    return compress_ratios[static_cast<std::size_t>(layer)] == kHcaRatio;
  }
};

/// Throws Error(kUnsupported | kBadFile) naming every key that is missing, absurd, contradictory or unknown.
V4Config parse_v4_config(const nlohmann::json& config, const std::string& subject);

struct V4LayerWeights {
  std::vector<float> attn_norm, ffn_norm;
  WeightView wq_a, wq_b, wkv, wo_a, wo_b;  ///< wo_a: [o_groups * o_lora_rank, heads * head_dim / o_groups]
  std::vector<float> q_norm, kv_norm, attn_sink;
  CompressorWeights compressor;  ///< layers with a compress_ratio
  // CSA layers
  WeightView indexer_wq_b, indexer_weights_proj;
  CompressorWeights indexer_compressor;
  // FFN
  WeightView gate;
  std::vector<float> gate_bias;             ///< empty in hash-routed layers
  std::vector<std::int32_t> token_experts;  ///< hash-routed layers: [vocab, num_experts_per_tok]
  std::vector<ExpertWeights> experts;
  std::vector<ExpertWeights> shared_experts;  ///< 0 or 1
  HyperConnectionWeights hc_attn, hc_ffn;
};

/// The hyper-head that ends the stack: fn F32 [hc, hc * hidden], base [hc], scale [1].
struct V4Weights {
  WeightView embed, head;  ///< [vocab, hidden]
  std::vector<float> norm;
  HyperConnectionWeights hc_head;
  std::vector<V4LayerWeights> layers;
};

/// Takes the backbone's tensors; draft stages (`mtp.`) are marked present and unused. `set.finish()` is the
/// caller's.
V4Weights load_v4_weights(const V4Config& config, WeightSet& set);

/// Every tensor of a checkpoint with this config, in the released shard order; for `seekline synth`.
std::vector<TensorSpec> v4_tensor_specs(const V4Config& config);

}  // namespace seekline
