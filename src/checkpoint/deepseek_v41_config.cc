// config.json of DeepSeek-V4.1: every key is used, known to be harmless, or refused by name.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json_fwd.hpp>

#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_v41.h"
#include "checkpoint/deepseek_v41_check.h"
#include "checkpoint/rope_config.h"

namespace seekline {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;
constexpr std::int64_t kQuantum = 32;  // channels that share a scale: fp8 inputs, fp4 rows and weights

void read_sizes(ConfigReader& text, V41Config& c) {
  c.vocab_size = text.integer("vocab_size", 1, 1 << 24);
  c.hidden_size = text.integer("hidden_size", 1, kMaxWidth);
  c.moe_intermediate_size = text.integer("moe_intermediate_size", 1, kMaxWidth);
  c.num_hidden_layers = text.integer("num_hidden_layers", 1, kMaxLayers);
  c.num_attention_heads = text.integer("num_attention_heads", 1, 4096);
  c.head_dim = text.integer("head_dim", 1, 4096);
  c.qk_rope_head_dim = text.integer("qk_rope_head_dim", 2, 4096);
  c.q_lora_rank = text.integer("q_lora_rank", 1, kMaxWidth);
  c.o_lora_rank = text.integer("o_lora_rank", 1, kMaxWidth);
  c.o_groups = text.integer("o_groups", 1, 4096);
  c.max_position_embeddings = text.integer("max_position_embeddings", 1, std::int64_t{1} << 30);
  c.sliding_window = text.integer("sliding_window", 1, 1 << 20);
  c.hc_mult = text.integer("hc_mult", 1, 16);
  c.hc_sinkhorn_iters = text.integer("hc_sinkhorn_iters", 1, 1000);
  c.hc_eps = text.number("hc_eps", 0, 1);
  c.rms_norm_eps = text.number("rms_norm_eps", 1e-30, 1);
  text.must_be("num_key_value_heads", std::int64_t{1});
  text.must_be("attention_bias", false);
  text.must_be("tie_word_embeddings", false);
  text.must_be("hidden_act", "silu");
  text.must_be("model_type", "deepseek_v41_text");
}

void read_router_and_rope(ConfigReader& text, V41Config& c) {
  c.n_routed_experts = text.integer("n_routed_experts", 1, 2048);
  c.n_shared_experts = text.integer("n_shared_experts", 0, 1);
  c.num_experts_per_tok = text.integer("num_experts_per_tok", 1, 256);
  c.norm_topk_prob = text.boolean_or("norm_topk_prob", true);
  c.routed_scaling_factor = text.number("routed_scaling_factor", 1e-6, 1e6);
  c.swiglu_limit = text.number("swiglu_limit", 1e-3, 1e6);
  c.gate_temp = text.number_or("gate_temp", 1.0, 1e-6, 1e6);
  text.must_be("scoring_func", "sqrtsoftplus");
  text.must_be("topk_method", "noaux_tc");
  c.rope_theta = text.number("rope_theta", 1, 1e12);
  c.compress_rope_theta = text.number("compress_rope_theta", 1, 1e12);
  c.rope_scaling = read_rope_scaling(text, "rope_scaling", "text_config.", {});
  text.refuse("rope_parameters", "this engine reads rope_theta, compress_rope_theta and rope_scaling");
}

void read_sources(ConfigReader& text, V41Config& c) {
  c.compress_ratios = text.integers("compress_ratios", kMaxLayers + 64, 0, 128);
  c.kv_source_layer_ids = text.integers("kv_source_layer_ids", kMaxLayers, 0, kMaxLayers);
  c.index_source_layer_ids = text.integers("index_source_layer_ids", kMaxLayers, 0, kMaxLayers);
  const std::int64_t least = c.index_source_layer_ids.empty() ? 0 : 1;
  c.index_n_heads = text.integer("index_n_heads", least, 4096);
  c.index_head_dim = text.integer("index_head_dim", least, 4096);
  c.index_topk = text.integer("index_topk", least, 1 << 20);
  c.candidate_source_layer_id =
      std::max<std::int64_t>(-1, text.integer_or("candidate_source_layer_id", -1, -kMaxLayers, kMaxLayers));
  const std::int64_t pool = c.candidate_source_layer_id < 0 ? 0 : 1;
  c.candidate_topk_blocks = text.integer_or("candidate_topk_blocks", 0, pool, 1 << 20);
  c.candidate_block_size = text.integer_or("candidate_block_size", 0, pool, 4096);
}

void read_engram(ConfigReader& text, V41Config& c) {
  c.engram_layer_ids = text.integers_or("engram_layer_ids", kMaxLayers, 0, kMaxLayers);
  c.engram_num_embeddings = text.integers_or("engram_num_embeddings", kMaxLayers, 1, kMaxRows);
  const std::int64_t least = c.engram_layer_ids.empty() ? 0 : 1;
  c.engram_max_ngram_size = text.integer_or("engram_max_ngram_size", 0, 2 * least, 8);
  c.engram_vocab_size = text.integer_or("engram_vocab_size", 0, 2 * least, kMaxRows);
  c.engram_n_heads = text.integer_or("engram_n_heads", 0, least, 256);
  c.engram_head_dim = text.integer_or("engram_head_dim", 0, least, 65536);
  c.engram_compressed_vocab_size = text.integer_or("engram_compressed_vocab_size", 0, least, 1 << 24);
  if (text.has("engram_pad_token_id") && text.has("engram_pad_id"))
    text.problem("text_config: engram_pad_token_id and engram_pad_id are two spellings of one key; keep one");
  const char* pad = text.has("engram_pad_id") ? "engram_pad_id" : "engram_pad_token_id";
  c.engram_pad_token_id = text.integer_or(pad, 0, 0, 1 << 24);
  if (least == 1)
    for (const char* key : {"engram_max_ngram_size", "engram_vocab_size", "engram_n_heads", "engram_head_dim",
                            "engram_compressed_vocab_size", pad})
      if (!text.has(key))
        text.problem(fmt::format("key 'text_config.{}' is missing, and engram_layer_ids is not empty", key));
}

void read_drafts(ConfigReader& text, V41Config& c) {
  c.num_draft_stages = text.integer_or("num_nextn_predict_layers", 0, 0, 16);
  const std::int64_t least = c.num_draft_stages > 0 ? 1 : 0;
  c.draft_experts = text.integer_or("dspark_n_routed_experts", 0, 0, 2048);
  c.draft_experts_per_tok = text.integer_or("dspark_num_experts_per_tok", 0, 0, 256);
  if (c.draft_experts == 0) c.draft_experts = c.n_routed_experts;
  if (c.draft_experts_per_tok == 0) c.draft_experts_per_tok = c.num_experts_per_tok;
  c.draft_block_size = text.integer_or("dspark_block_size", 0, least, 64);
  c.draft_markov_rank = text.integer_or("dspark_markov_rank", 0, least, 65536);
  c.draft_noise_token = text.integer_or("dspark_noise_token_id", 0, 0, 1 << 24);
  c.draft_target_layers = text.integers_or("dspark_target_layer_ids", 64, 0, kMaxLayers);
}

void read_vision(ConfigReader& root, V41Config& c) {
  const nlohmann::json* object = root.object("vision_config");
  c.has_vision = object != nullptr;
  if (!c.has_vision) return;
  ConfigReader reader(*object, root, "vision_config");
  VisionConfig& v = c.vision;
  reader.must_be("model_type", "deepseek_v41_vision");
  v.num_hidden_layers = reader.integer("num_hidden_layers", 1, 512);
  v.hidden_size = reader.integer("hidden_size", 1, kMaxWidth);
  v.num_attention_heads = reader.integer("num_attention_heads", 1, 4096);
  v.intermediate_size = reader.integer("intermediate_size", 1, kMaxWidth);
  v.patch_size = reader.integer("patch_size", 1, 1024);
  v.downsample_ratio = reader.integer("downsample_ratio", 1, 64);
  v.max_image_tokens = reader.integer("max_image_tokens", 1, 1 << 20);
  v.min_pixels = reader.integer_or("min_pixels", 0, 0, std::int64_t{1} << 40);
  v.rope_theta = reader.number("rope_theta", 1, 1e12);
  v.max_wh_ratio = reader.number_or("max_wh_ratio", 0, 0, 1e6);
  reader.ignore({"dtype", "torch_dtype"});
  reader.no_other_keys();
}

void read_quantization(ConfigReader& root) {
  const nlohmann::json* object = root.object("quantization_config");
  if (object == nullptr)
    return root.problem(
        "key 'quantization_config' is missing: without it nobody can know how weights are scaled");
  ConfigReader reader(*object, root, "quantization_config");
  for (const char* key : {"quant_method", "weight_block_size", "scale_fmt", "expert_dtype"})
    if (!reader.has(key)) reader.problem(fmt::format("key 'quantization_config.{}' is missing", key));
  reader.must_be("quant_method", "fp8");
  reader.must_be("activation_scheme", "dynamic");
  reader.must_be("scale_fmt", "ue8m0");
  reader.must_be("expert_dtype", "fp4");
  reader.must_be("fmt", "e4m3");
  const Ids block = reader.integers_or("weight_block_size", 2, 1, 65536);
  if (!block.empty() && block != Ids{kQuantum, kQuantum})
    reader.unsupported(
        "key 'quantization_config.weight_block_size': this engine honours only [32, 32] for this family");
  reader.no_other_keys();
}

}  // namespace

V41Config parse_v41_config(const nlohmann::json& config, const std::string& subject) {
  V41Config c{};
  ConfigReader root(config, subject);
  root.must_be("model_type", "deepseek_v41");
  root.must_be("tie_word_embeddings", false);
  // The dtype of the trainers' activations, token ids that only training and chat templates use, and
  // bookkeeping.
  root.ignore({"architectures", "dtype", "torch_dtype", "pad_token_id", "transformers_version",
               "_name_or_path", "initializer_range", "use_cache", "auto_map"});
  c.eos_token_ids = root.integer_or_list("eos_token_id", 64, 0, 1 << 24);
  c.bos_token_id = root.integer_or("bos_token_id", -1, 0, 1 << 24);
  c.image_token_id = root.integer_or("image_token_id", -1, 0, 1 << 24);
  read_quantization(root);
  read_vision(root, c);
  if (const nlohmann::json* object = root.object("text_config")) {
    ConfigReader text(*object, root, "text_config");
    read_sizes(text, c);
    read_router_and_rope(text, c);
    read_sources(text, c);
    read_engram(text, c);
    read_drafts(text, c);
    text.ignore({"dtype", "torch_dtype", "initializer_range", "use_cache", "attention_dropout"});
    text.no_other_keys();
  } else {
    root.problem("key 'text_config' is missing (the nested config.json of the release is expected)");
  }
  if (root.clean()) check_v41_config(root, c);
  root.finish();
  return c;
}

}  // namespace seekline
