// config.json of DeepSeek-V4: every key is used, known to be harmless, or refused by name.
#include <fmt/format.h>

#include <algorithm>

#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_v4.h"
#include "checkpoint/rope_config.h"

namespace seekline {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kMaxLayers = 512;
constexpr std::int64_t kQuantum = 128;  // channels that share a scale of a linear's input

void read_sizes(ConfigReader& r, V4Config& c) {
  c.vocab_size = r.integer("vocab_size", 1, 1 << 24);
  c.hidden_size = r.integer("hidden_size", 1, kMaxWidth);
  c.moe_intermediate_size = r.integer("moe_intermediate_size", 1, kMaxWidth);
  c.num_hidden_layers = r.integer("num_hidden_layers", 1, kMaxLayers);
  c.num_attention_heads = r.integer("num_attention_heads", 1, 4096);
  c.head_dim = r.integer("head_dim", 1, 4096);
  c.qk_rope_head_dim = r.integer("qk_rope_head_dim", 2, 4096);
  c.q_lora_rank = r.integer("q_lora_rank", 1, kMaxWidth);
  c.o_lora_rank = r.integer("o_lora_rank", 1, kMaxWidth);
  c.o_groups = r.integer("o_groups", 1, 4096);
  c.max_position_embeddings = r.integer("max_position_embeddings", 1, std::int64_t{1} << 30);
  c.sliding_window = r.integer("sliding_window", 1, 1 << 20);
  c.index_n_heads = r.integer("index_n_heads", 1, 4096);
  c.index_head_dim = r.integer("index_head_dim", 1, 4096);
  c.index_topk = r.integer("index_topk", 1, 1 << 20);
  c.hc_mult = r.integer("hc_mult", 1, 16);
  c.hc_sinkhorn_iters = r.integer("hc_sinkhorn_iters", 1, 1000);
  c.hc_eps = r.number("hc_eps", 0, 1);
  c.rms_norm_eps = r.number("rms_norm_eps", 1e-30, 1);
}

void read_router_and_rope(ConfigReader& r, V4Config& c) {
  c.n_routed_experts = r.integer("n_routed_experts", 1, 2048);
  c.n_shared_experts = r.integer("n_shared_experts", 0, 1);
  c.num_experts_per_tok = r.integer("num_experts_per_tok", 1, 256);
  c.num_hash_layers = r.integer_or("num_hash_layers", 0, 0, kMaxLayers);
  c.norm_topk_prob = r.boolean_or("norm_topk_prob", true);
  c.routed_scaling_factor = r.number("routed_scaling_factor", 1e-6, 1e6);
  c.swiglu_limit = r.number("swiglu_limit", 1e-3, 1e6);
  c.rope_theta = r.number("rope_theta", 1, 1e12);
  c.compress_rope_theta = r.number("compress_rope_theta", 1, 1e12);
  c.rope_scaling = read_rope_scaling(r, "rope_scaling", "", {});
  r.refuse("rope_parameters", "this engine reads rope_theta, compress_rope_theta and rope_scaling");
}

void read_fixed(ConfigReader& r) {
  r.must_be("model_type", "deepseek_v4");
  r.must_be("num_key_value_heads", std::int64_t{1});
  r.must_be("attention_bias", false);
  r.must_be("tie_word_embeddings", false);
  r.must_be("hidden_act", "silu");
  r.must_be("scoring_func", "sqrtsoftplus");
  r.must_be("topk_method", "noaux_tc");
  r.must_be("expert_dtype", "fp4");
  // The dtype of the trainers' activations, and bookkeeping. num_nextn_predict_layers stays 1 where three
  // stages exist.
  r.ignore({"architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path",
            "initializer_range", "use_cache", "attention_dropout", "auto_map", "pad_token_id",
            "num_nextn_predict_layers"});
}

void read_quantization(ConfigReader& root) {
  const nlohmann::json* object = root.object("quantization_config");
  if (object == nullptr)
    return root.problem(
        "key 'quantization_config' is missing: without it nobody can know how weights are scaled");
  ConfigReader r(*object, root, "quantization_config");
  for (const char* key : {"quant_method", "weight_block_size", "scale_fmt"})
    if (!r.has(key)) r.problem(fmt::format("key 'quantization_config.{}' is missing", key));
  r.must_be("quant_method", "fp8");
  r.must_be("activation_scheme", "dynamic");
  r.must_be("scale_fmt", "ue8m0");
  r.must_be("fmt", "e4m3");
  const auto block = r.integers_or("weight_block_size", 2, 1, 65536);
  if (!block.empty() && block != std::vector<std::int64_t>{kQuantum, kQuantum})
    r.unsupported(
        "key 'quantization_config.weight_block_size': this engine honours only [128, 128] for this family");
  r.no_other_keys();
}

// Ratios of the backbone; the entries behind them tell the draft stages.
void read_ratios(ConfigReader& r, V4Config& c) {
  c.compress_ratios = r.integers("compress_ratios", kMaxLayers + 16, 0, V4Config::kHcaRatio);
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (c.compress_ratios.size() < layers)
    return r.problem(
        fmt::format("compress_ratios has {} entries for {} layers", c.compress_ratios.size(), layers));
  for (std::size_t i = 0; i < c.compress_ratios.size(); ++i) {
    const std::int64_t ratio = c.compress_ratios[i];
    if (i >= layers && ratio != 0)
      r.problem(
          fmt::format("compress_ratios: entry {} belongs to a draft stage and is {}, expected 0", i, ratio));
    if (i < layers && ratio != 0 && ratio != V4Config::kCsaRatio && ratio != V4Config::kHcaRatio)
      r.unsupported(fmt::format(
          "compress_ratios: layer {} has {}, but this engine knows 0, 4 (CSA) and 128 (HCA)", i, ratio));
  }
  c.num_draft_stages = static_cast<std::int64_t>(c.compress_ratios.size() - layers);
  c.compress_ratios.resize(layers);
}

void read_drafts(ConfigReader& r, V4Config& c) {
  c.dspark = r.has("dspark_block_size");
  const std::int64_t least = c.dspark ? 1 : 0;
  c.draft_block_size = r.integer_or("dspark_block_size", 0, least, 64);
  c.draft_noise_token = r.integer_or("dspark_noise_token_id", 0, 0, 1 << 24);
  c.draft_markov_rank = r.integer_or("dspark_markov_rank", 0, least, 65536);
  c.draft_target_layers = r.integers_or("dspark_target_layer_ids", 64, 0, kMaxLayers);
}

void check_sizes(ConfigReader& root, const V4Config& c) {
  const auto multiple = [&](const char* what, std::int64_t value, std::int64_t of) {
    if (value % of != 0)
      root.problem(fmt::format("{} is {}, expected a multiple of {}, the width of a quantizer block", what,
                               value, of));
  };
  multiple("hidden_size", c.hidden_size, kQuantum);
  multiple("moe_intermediate_size", c.moe_intermediate_size, kQuantum);
  multiple("q_lora_rank", c.q_lora_rank, kQuantum);
  multiple("o_lora_rank", c.o_lora_rank, kQuantum);
  multiple("index_head_dim", c.index_head_dim, 32);
  multiple("head_dim without qk_rope_head_dim", c.head_dim - c.qk_rope_head_dim, 64);
  if (c.qk_rope_head_dim % 2 != 0 || c.qk_rope_head_dim > std::min(c.head_dim, c.index_head_dim))
    root.problem(fmt::format(
        "qk_rope_head_dim is {}, expected an even number up to head_dim = {} and index_head_dim = {}",
        c.qk_rope_head_dim, c.head_dim, c.index_head_dim));
  if ((c.index_head_dim & (c.index_head_dim - 1)) != 0)
    root.problem(
        fmt::format("index_head_dim is {}, expected a power of two: it goes through a Hadamard transform",
                    c.index_head_dim));
  if (c.num_attention_heads % c.o_groups != 0)
    root.problem(fmt::format("num_attention_heads is {}, which o_groups = {} does not divide",
                             c.num_attention_heads, c.o_groups));
  if (c.num_experts_per_tok > c.n_routed_experts)
    root.problem(fmt::format("num_experts_per_tok is {}, more than n_routed_experts = {}",
                             c.num_experts_per_tok, c.n_routed_experts));
  if (c.num_hash_layers > c.num_hidden_layers)
    root.problem(fmt::format("num_hash_layers is {} of {} layers", c.num_hash_layers, c.num_hidden_layers));
  for (const std::int64_t id : c.eos_token_ids)
    if (id >= c.vocab_size)
      root.problem(fmt::format("eos_token_id is {}, but vocab_size is {}", id, c.vocab_size));
  if (c.bos_token_id >= c.vocab_size)
    root.problem(fmt::format("bos_token_id is {}, but vocab_size is {}", c.bos_token_id, c.vocab_size));
}

void check_drafts(ConfigReader& root, const V4Config& c) {
  if (!c.dspark) return;
  if (c.draft_markov_rank < 1) root.problem("dspark_block_size is there, but dspark_markov_rank is missing");
  if (c.draft_noise_token >= c.vocab_size)
    root.problem(
        fmt::format("dspark_noise_token_id is {}, but vocab_size is {}", c.draft_noise_token, c.vocab_size));
  const auto& targets = c.draft_target_layers;
  const bool ascends = std::adjacent_find(targets.begin(), targets.end(),
                                          [](auto a, auto b) { return a >= b; }) == targets.end();
  if (targets.empty() || !ascends || targets.back() >= c.num_hidden_layers)
    root.problem("dspark_target_layer_ids must name at least one layer of the model, ascending");
}

}  // namespace

V4Config parse_v4_config(const nlohmann::json& config, const std::string& subject) {
  V4Config c{};
  ConfigReader root(config, subject);
  read_fixed(root);
  read_quantization(root);
  read_sizes(root, c);
  read_router_and_rope(root, c);
  read_ratios(root, c);
  read_drafts(root, c);
  c.eos_token_ids = root.integer_or_list("eos_token_id", 64, 0, 1 << 24);
  c.bos_token_id = root.integer_or("bos_token_id", -1, 0, 1 << 24);
  if (root.clean()) {
    check_sizes(root, c);
    check_drafts(root, c);
  }
  root.finish();
  return c;
}

}  // namespace seekline
