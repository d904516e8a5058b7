// DeepSeek-V2, V3 and V3.2: config.json and Hugging Face tensor names -> typed geometry and weights.
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

/// Geometry of `model_type: deepseek_v2 | deepseek_v3 | deepseek_v32`; names as in config.json.
struct MlaConfig {
  enum class Generation : std::uint8_t { kV2, kV3, kV32 };
  enum class Routing : std::uint8_t {
    kGreedy,        ///< V2-Lite: top-k of softmax scores
    kGroupMaximum,  ///< V2: groups by their maximum, experts of other groups count as 0
    kGroupTopTwo,   ///< V3: sigmoid scores with a selection bias, groups by the sum of their two best
  };
  Generation generation;
  Routing routing;
  std::int64_t vocab_size, hidden_size, intermediate_size, moe_intermediate_size, num_hidden_layers;
  std::int64_t first_k_dense_replace;  ///< the first layers, which have one dense FFN
  std::int64_t num_attention_heads;
  std::int64_t q_lora_rank;  ///< 0: queries come from q_proj (V2-Lite)
  std::int64_t kv_lora_rank, qk_nope_head_dim, qk_rope_head_dim, v_head_dim;
  std::int64_t n_routed_experts, n_shared_experts, num_experts_per_tok, n_group, topk_group;
  bool norm_topk_prob;
  double routed_scaling_factor, rms_norm_eps, rope_theta;
  RopeScaling rope_scaling;
  std::int64_t max_position_embeddings;
  std::int64_t index_n_heads = 0, index_head_dim = 0, index_topk = 0;  ///< V3.2
  bool fp8 = false;          ///< linears are e4m3 with F32 scales per 128 x 128
  bool pow2_scales = false;  ///< `scale_fmt: ue8m0`: scales of activations and rows are powers of two
  std::int64_t num_draft_layers = 0;  ///< MTP layers behind the backbone, as the config says
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t bos_token_id = -1;  ///< -1: none

  bool is_dense(std::int64_t layer) const { return layer < first_k_dense_replace; }
  bool has_indexer() const { return generation == Generation::kV32; }
};

/// Throws Error(kUnsupported | kBadFile) naming every key that is missing, absurd, contradictory or unknown.
MlaConfig parse_mla_config(const nlohmann::json& config, const std::string& subject);

struct MlaLayerWeights {
  std::vector<float> input_layernorm, post_attention_layernorm;
  WeightView q_proj;  ///< [heads * (nope + rope), hidden] where q_lora_rank is 0
  WeightView q_a_proj, q_b_proj;
  std::vector<float> q_a_layernorm;
  WeightView kv_a_proj;  ///< [kv_lora_rank + rope, hidden]
  std::vector<float> kv_a_layernorm;
  WeightView kv_b_proj;  ///< [heads * (nope + v_head_dim), kv_lora_rank], nope rows of a head first
  WeightView o_proj;     ///< [hidden, heads * v_head_dim]
  // V3.2
  WeightView indexer_wq_b, indexer_wk, indexer_weights_proj;
  std::vector<float> indexer_k_norm, indexer_k_norm_bias;
  // FFN
  ExpertWeights mlp;  ///< dense layers
  WeightView gate;
  std::vector<float> gate_bias;  ///< V3: e_score_correction_bias
  std::vector<ExpertWeights> experts;
  ExpertWeights shared;  ///< all shared experts side by side: [n_shared_experts * moe_intermediate, hidden];
                         ///< may be empty
};

struct MlaWeights {
  WeightView embed, head;  ///< [vocab, hidden]
  std::vector<float> norm;
  std::vector<MlaLayerWeights> layers;
};

/// Takes the backbone's tensors; MTP layers behind it are marked present and unused. `set.finish()` is the
/// caller's.
MlaWeights load_mla_weights(const MlaConfig& config, WeightSet& set);

/// Every tensor of a checkpoint with this config, a shard for each layer; for `seekline synth`.
std::vector<TensorSpec> mla_tensor_specs(const MlaConfig& config);

}  // namespace seekline
