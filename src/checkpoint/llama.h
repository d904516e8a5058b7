// Dense decoders of `model_type: llama` in Hugging Face names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "checkpoint/config_reader.h"
#include "checkpoint/tensor_spec.h"
#include "checkpoint/tensor_visitor.h"
#include "checkpoint/weight_set.h"
#include "checkpoint/yarn.h"

namespace seekline {

struct LlamaConfig {
  std::int64_t vocab_size, hidden_size, intermediate_size, num_hidden_layers;
  std::int64_t num_attention_heads, num_key_value_heads, head_dim;
  double rms_norm_eps, rope_theta;
  RopeScaling rope_scaling;
  std::int64_t max_position_embeddings;
  bool tie_word_embeddings = false;
  std::vector<std::int64_t> eos_token_ids;
  std::int64_t bos_token_id = -1;  ///< -1: none
  DType dtype = DType::kBF16;      ///< as the config says; for listing only, files tell their own
};

/// Reads and checks the keys that dense decoders share; what is wrong is noted in `root`.
LlamaConfig read_dense_config(ConfigReader& root);

/// Throws Error(kUnsupported | kBadFile) naming every key that is missing, absurd, contradictory or unknown.
LlamaConfig parse_llama_config(const nlohmann::json& config, const std::string& subject);

struct LlamaLayerWeights {
  std::vector<float> input_layernorm, post_attention_layernorm;
  WeightView q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;
};

struct LlamaWeights {
  WeightView embed, head;  ///< the same view where the head is tied
  std::vector<float> norm;
  std::vector<LlamaLayerWeights> layers;
};

/// The tensors of a block under `p` ("model.layers.3."): norms, feed-forward, and attention under `attention`
/// ("self_attn."), with keys and values or (cross-attention) without.
void visit_dense_layer(TensorVisitor& v, const LlamaConfig& config, LlamaLayerWeights& weights,
                       const std::string& p, const std::string& attention, bool keys_and_values);

/// Takes every tensor; `set.finish()` is the caller's.
LlamaWeights load_llama_weights(const LlamaConfig& config, WeightSet& set);
std::vector<TensorSpec> llama_tensor_specs(const LlamaConfig& config);

}  // namespace seekline
