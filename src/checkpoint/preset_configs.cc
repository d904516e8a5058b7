// The configs behind the presets: released geometries, as published.
#include "checkpoint/preset_configs.h"

namespace seekline {
namespace {

constexpr const char* kV41Flash = R"json({
  "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16",
  "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "image_token_id": 129264,
  "text_config": {
    "model_type": "deepseek_v41_text", "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304,
    "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8, "attention_bias": false,
    "hidden_act": "silu", "swiglu_limit": 10.0, "rms_norm_eps": 1e-20, "tie_word_embeddings": false,
    "max_position_embeddings": 1048576, "rope_theta": 10000, "compress_rope_theta": 160000,
    "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                     "original_max_position_embeddings": 65536},
    "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6, "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc", "norm_topk_prob": true, "routed_scaling_factor": 1.5, "sliding_window": 128,
    "compress_ratios": [0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,
                        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512,
    "candidate_source_layer_id": 20, "candidate_topk_blocks": 2048, "candidate_block_size": 8,
    "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6,
    "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682], "engram_max_ngram_size": 4,
    "engram_vocab_size": 16000000, "engram_n_heads": 8, "engram_head_dim": 256, "engram_pad_token_id": 2,
    "engram_compressed_vocab_size": 99092,
    "num_nextn_predict_layers": 3, "dspark_block_size": 5, "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256, "dspark_n_routed_experts": 128,
    "dspark_num_experts_per_tok": 3
  },
  "vision_config": {
    "model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024, "num_attention_heads": 16,
    "intermediate_size": 2816, "patch_size": 14, "rope_theta": 10000, "downsample_ratio": 3,
    "max_image_tokens": 1024, "min_pixels": 295936, "max_wh_ratio": null
  },
  "quantization_config": {
    "quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32], "scale_fmt": "ue8m0",
    "expert_dtype": "fp4"
  }
})json";

// Patches of it.
constexpr const char* kWithoutDraftsAndVision = R"json({
  "vision_config": null,
  "text_config": {
    "num_nextn_predict_layers": 0, "dspark_block_size": null, "dspark_noise_token_id": null,
    "dspark_target_layer_ids": null, "dspark_markov_rank": null, "dspark_n_routed_experts": null,
    "dspark_num_experts_per_tok": null
  }
})json";

// The revision -0731, which has the tensors of the DSpark repository.
constexpr const char* kV4Flash = R"json({
  "architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", "torch_dtype": "bfloat16",
  "bos_token_id": 0, "eos_token_id": 1, "attention_bias": false, "tie_word_embeddings": false,
  "initializer_range": 0.02, "hidden_act": "silu", "vocab_size": 129280, "hidden_size": 4096,
  "moe_intermediate_size": 2048, "num_hidden_layers": 43, "num_attention_heads": 64, "num_key_value_heads": 1,
  "head_dim": 512, "qk_rope_head_dim": 64, "q_lora_rank": 1024, "o_lora_rank": 1024, "o_groups": 8,
  "n_routed_experts": 256, "num_experts_per_tok": 6, "n_shared_experts": 1, "num_hash_layers": 3,
  "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "routed_scaling_factor": 1.5, "norm_topk_prob": true,
  "swiglu_limit": 10.0, "rms_norm_eps": 1e-6, "sliding_window": 128,
  "index_n_heads": 64, "index_head_dim": 128, "index_topk": 512,
  "hc_mult": 4, "hc_sinkhorn_iters": 20, "hc_eps": 1e-6, "rope_theta": 10000, "compress_rope_theta": 160000,
  "rope_scaling": {"type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                   "original_max_position_embeddings": 65536},
  "max_position_embeddings": 1048576, "expert_dtype": "fp4",
  "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
                          "weight_block_size": [128, 128]},
  "transformers_version": "4.57.1", "num_nextn_predict_layers": 1,
  "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128,
                      4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0, 0, 0],
  "dspark_block_size": 5, "dspark_noise_token_id": 128799, "dspark_target_layer_ids": [40, 41, 42],
  "dspark_markov_rank": 256
})json";

// Patch of it: one MTP block instead of three stages.
constexpr const char* kV4Preview = R"json({
  "compress_ratios": [0, 0, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128,
                      4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0],
  "dspark_block_size": null, "dspark_noise_token_id": null, "dspark_target_layer_ids": null,
  "dspark_markov_rank": null
})json";

constexpr const char* kV3 = R"json({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "torch_dtype": "bfloat16",
  "bos_token_id": 0, "eos_token_id": 1, "attention_bias": false, "tie_word_embeddings": false,
  "hidden_act": "silu", "vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432,
  "moe_intermediate_size": 2048, "num_hidden_layers": 61, "first_k_dense_replace": 3, "moe_layer_freq": 1,
  "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8, "topk_group": 4,
  "topk_method": "noaux_tc", "scoring_func": "sigmoid", "norm_topk_prob": true,
  "routed_scaling_factor": 2.5, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 163840,
  "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                   "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096},
  "num_nextn_predict_layers": 1,
  "quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
                          "weight_block_size": [128, 128]}
})json";

// Patch of V3.
constexpr const char* kV32 = R"json({
  "architectures": ["DeepseekV32ForCausalLM"], "model_type": "deepseek_v32",
  "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048, "quantization_config": {"scale_fmt": "ue8m0"}
})json";

constexpr const char* kV2 = R"json({
  "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "torch_dtype": "bfloat16",
  "bos_token_id": 100000, "eos_token_id": 100001, "attention_bias": false, "tie_word_embeddings": false,
  "hidden_act": "silu", "vocab_size": 102400, "hidden_size": 5120, "intermediate_size": 12288,
  "moe_intermediate_size": 1536, "num_hidden_layers": 60, "first_k_dense_replace": 1, "moe_layer_freq": 1,
  "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 8, "topk_group": 3,
  "topk_method": "group_limited_greedy", "scoring_func": "softmax", "norm_topk_prob": false,
  "routed_scaling_factor": 16.0, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 163840,
  "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
                   "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}
})json";

constexpr const char* kV2Lite = R"json({
  "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "torch_dtype": "bfloat16",
  "bos_token_id": 100000, "eos_token_id": 100001, "attention_bias": false, "tie_word_embeddings": false,
  "hidden_act": "silu", "vocab_size": 102400, "hidden_size": 2048, "intermediate_size": 10944,
  "moe_intermediate_size": 1408, "num_hidden_layers": 27, "first_k_dense_replace": 1, "moe_layer_freq": 1,
  "num_attention_heads": 16, "num_key_value_heads": 16, "q_lora_rank": null, "kv_lora_rank": 512,
  "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
  "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "n_group": 1, "topk_group": 1,
  "topk_method": "greedy", "scoring_func": "softmax", "norm_topk_prob": false,
  "routed_scaling_factor": 1.0, "rms_norm_eps": 1e-6, "rope_theta": 10000, "max_position_embeddings": 163840,
  "rope_scaling": {"type": "yarn", "factor": 40, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707,
                   "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096}
})json";

// DeepSeek 67B (V1), and a model with V2's depth and heads but a key and a value per head: the yardsticks of
// the cache.
constexpr const char* kV1 = R"json({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 102400, "hidden_size": 8192, "intermediate_size": 22016, "num_hidden_layers": 95,
  "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-6,
  "rope_theta": 10000, "rope_scaling": null,
  "max_position_embeddings": 4096, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 100000, "eos_token_id": 100001
})json";
constexpr const char* kMhaV2Size = R"json({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 102400, "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 60,
  "num_attention_heads": 128, "num_key_value_heads": 128, "head_dim": 128, "rms_norm_eps": 1e-6,
  "rope_theta": 10000, "rope_scaling": null,
  "max_position_embeddings": 131072, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 100000, "eos_token_id": 100001
})json";

constexpr const char* kSmolLm2 = R"json({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
  "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "rms_norm_eps": 1e-5,
  "rope_theta": 100000, "rope_scaling": null,
  "max_position_embeddings": 8192, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 1, "eos_token_id": 2
})json";
constexpr const char* kLlama2B = R"json({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 65536, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "rms_norm_eps": 1e-5,
  "rope_theta": 500000, "rope_scaling": null,
  "max_position_embeddings": 131072, "tie_word_embeddings": true, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 1, "eos_token_id": 2
})json";
constexpr const char* kLlama8B = R"json({
  "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
  "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5,
  "rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192},
  "max_position_embeddings": 131072, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 128000, "eos_token_id": 128001
})json";

// Small enough to generate for tests and demonstrations; nobody has released one.
constexpr const char* kYocoSmall = R"json({
  "architectures": ["YocoForCausalLM"], "model_type": "yoco", "torch_dtype": "bfloat16", "hidden_act": "silu",
  "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 8, "num_self_layers": 4,
  "sliding_window": 128, "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 32, "rms_norm_eps": 1e-6,
  "rope_theta": 10000, "rope_scaling": null,
  "max_position_embeddings": 131072, "tie_word_embeddings": false, "attention_bias": false, "mlp_bias": false,
  "bos_token_id": 0, "eos_token_id": 1
})json";

}  // namespace

const std::vector<PresetSource>& preset_sources() {
  static const std::vector<PresetSource> sources = {
      {"v41-flash", "DeepSeek-V4.1-Flash with drafts and vision, as released", kV41Flash, nullptr},
      {"v41-flash-text", "the same without drafts and vision", kV41Flash, kWithoutDraftsAndVision},
      {"v4-flash", "DeepSeek-V4-Flash-0731 with its three draft stages", kV4Flash, nullptr},
      {"v4-flash-preview", "DeepSeek-V4-Flash, the preview with one MTP block", kV4Flash, kV4Preview},
      {"v32", "DeepSeek-V3.2: MLA with sparse attention, fp8", kV3, kV32},
      {"v3", "DeepSeek-V3: MLA, fp8", kV3, nullptr},
      {"v2", "DeepSeek-V2: MLA, bf16", kV2, nullptr},
      {"v2-lite", "DeepSeek-V2-Lite: MLA, bf16", kV2Lite, nullptr},
      {"v1-67b", "DeepSeek 67B (V1): GQA", kV1, nullptr},
      {"mha-v2size", "MHA at the size of V2", kMhaV2Size, nullptr},
      {"yoco-small", "a small decoder with windows below and one shared memory above", kYocoSmall, nullptr},
      {"smollm2-135m", "SmolLM2-135M", kSmolLm2, nullptr},
      {"llama-2b", "a GQA decoder of 1.6 billion parameters", kLlama2B, nullptr},
      {"llama-8b", "the geometry of Llama 3.1 8B", kLlama8B, nullptr},
  };
  return sources;
}

}  // namespace seekline
