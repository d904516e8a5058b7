// config.json of DeepSeek-V2, V3 and V3.2: every key is used, known to be harmless, or refused by name.
#include <fmt/format.h>

#include "checkpoint/config_reader.h"
#include "checkpoint/deepseek_mla.h"
#include "checkpoint/rope_config.h"

namespace seekline {
namespace {

using Generation = MlaConfig::Generation;
using Routing = MlaConfig::Routing;

constexpr std::int64_t kMaxWidth = 1 << 20;
constexpr std::int64_t kQuantum = 128;  // channels that share a scale: fp8 weights, inputs and rows

void read_generation(ConfigReader& r, MlaConfig& c) {
  const std::string type = r.string("model_type");
  c.generation = type == "deepseek_v32"  ? Generation::kV32
                 : type == "deepseek_v3" ? Generation::kV3
                                         : Generation::kV2;
  if (c.generation == Generation::kV2 && type != "deepseek_v2")
    r.unsupported(fmt::format(
        "key 'model_type': found \"{}\", expected deepseek_v2, deepseek_v3 or deepseek_v32", type));
}

void read_sizes(ConfigReader& r, MlaConfig& c) {
  c.vocab_size = r.integer("vocab_size", 1, 1 << 24);
  c.hidden_size = r.integer("hidden_size", 1, kMaxWidth);
  c.intermediate_size = r.integer("intermediate_size", 1, kMaxWidth);
  c.moe_intermediate_size = r.integer("moe_intermediate_size", 1, kMaxWidth);
  c.num_hidden_layers = r.integer("num_hidden_layers", 1, 512);
  c.first_k_dense_replace = r.integer("first_k_dense_replace", 0, 512);
  c.num_attention_heads = r.integer("num_attention_heads", 1, 4096);
  c.q_lora_rank = r.integer_or("q_lora_rank", 0, 1, kMaxWidth);
  c.kv_lora_rank = r.integer("kv_lora_rank", 1, kMaxWidth);
  c.qk_nope_head_dim = r.integer("qk_nope_head_dim", 1, 4096);
  c.qk_rope_head_dim = r.integer("qk_rope_head_dim", 2, 4096);
  c.v_head_dim = r.integer("v_head_dim", 1, 4096);
  c.max_position_embeddings = r.integer("max_position_embeddings", 1, std::int64_t{1} << 30);
  c.rms_norm_eps = r.number("rms_norm_eps", 1e-30, 1);
  c.rope_theta = r.number("rope_theta", 1, 1e12);
  RopeKinds kinds;
  kinds.mscale = true;
  c.rope_scaling = read_rope_scaling(r, "rope_scaling", "", kinds);
  if (c.generation == Generation::kV32) {
    c.index_n_heads = r.integer("index_n_heads", 1, 4096);
    c.index_head_dim = r.integer("index_head_dim", 1, 4096);
    c.index_topk = r.integer("index_topk", 1, 1 << 20);
  }
}

void read_router(ConfigReader& r, MlaConfig& c) {
  const bool v2 = c.generation == Generation::kV2;
  c.n_routed_experts = r.integer("n_routed_experts", 1, 2048);
  c.n_shared_experts = r.integer_or("n_shared_experts", 0, 0, 64);
  c.num_experts_per_tok = r.integer("num_experts_per_tok", 1, 256);
  c.n_group = r.integer_or("n_group", 1, 1, 2048);
  c.topk_group = r.integer_or("topk_group", 1, 1, 2048);
  c.routed_scaling_factor = r.number_or("routed_scaling_factor", 1, 1e-6, 1e6);
  c.norm_topk_prob = r.boolean_or("norm_topk_prob", !v2);
  if (v2 && c.norm_topk_prob)
    r.unsupported("key 'norm_topk_prob': found true, but this engine honours only false for deepseek_v2");
  r.must_be("scoring_func", v2 ? "softmax" : "sigmoid");
  c.routing = Routing::kGroupTopTwo;
  if (!v2) return r.must_be("topk_method", "noaux_tc");
  const std::string method = r.string_or("topk_method", "greedy");
  c.routing = method == "group_limited_greedy" ? Routing::kGroupMaximum : Routing::kGreedy;
  if (method != "greedy" && method != "group_limited_greedy")
    r.unsupported(
        fmt::format("key 'topk_method': found \"{}\", but this engine honours only \"greedy\" and "
                    "\"group_limited_greedy\" "
                    "for deepseek_v2",
                    method));
}

void read_fixed(ConfigReader& r, const MlaConfig& c) {
  r.must_be("hidden_act", "silu");
  r.must_be("attention_bias", false);
  r.must_be("tie_word_embeddings", false);
  r.must_be("moe_layer_freq", std::int64_t{1});
  r.must_be("num_key_value_heads", c.num_attention_heads);
  r.refuse("rope_parameters", "this engine reads rope_theta and rope_scaling");
  // Losses, parallelism, the dtype of the trainers' activations, and bookkeeping.
  r.ignore({"architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path",
            "initializer_range", "use_cache", "attention_dropout", "auto_map", "pad_token_id", "ep_size",
            "aux_loss_alpha", "seq_aux", "pretraining_tp"});
}

void read_quantization(ConfigReader& root, MlaConfig& c) {
  const nlohmann::json* object = root.object("quantization_config");
  c.fp8 = object != nullptr;
  if (!c.fp8) return;
  ConfigReader r(*object, root, "quantization_config");
  for (const char* key : {"quant_method", "weight_block_size"})
    if (!r.has(key)) r.problem(fmt::format("key 'quantization_config.{}' is missing", key));
  r.must_be("quant_method", "fp8");
  r.must_be("activation_scheme", "dynamic");
  r.must_be("fmt", "e4m3");
  c.pow2_scales = r.has("scale_fmt");
  r.must_be("scale_fmt", "ue8m0");
  const auto block = r.integers_or("weight_block_size", 2, 1, 65536);
  if (!block.empty() && block != std::vector<std::int64_t>{kQuantum, kQuantum})
    r.unsupported(
        "key 'quantization_config.weight_block_size': this engine honours only [128, 128] for this family");
  r.no_other_keys();
}

void check_router(ConfigReader& root, const MlaConfig& c) {
  if (c.num_experts_per_tok > c.n_routed_experts)
    root.problem(fmt::format("num_experts_per_tok is {}, more than n_routed_experts = {}",
                             c.num_experts_per_tok, c.n_routed_experts));
  if (c.routing == Routing::kGreedy) return;
  if (c.n_routed_experts % c.n_group != 0)
    return root.problem(fmt::format("n_routed_experts is {}, which n_group = {} does not divide",
                                    c.n_routed_experts, c.n_group));
  if (c.topk_group > c.n_group)
    return root.problem(fmt::format("topk_group is {}, more than n_group = {}", c.topk_group, c.n_group));
  const std::int64_t size = c.n_routed_experts / c.n_group;
  if (c.num_experts_per_tok > size * c.topk_group)
    root.problem(fmt::format("num_experts_per_tok is {}, but {} groups of {} hold fewer experts",
                             c.num_experts_per_tok, c.topk_group, size));
  if (c.routing == Routing::kGroupTopTwo && c.n_group > 1 && size < 2)
    root.problem(fmt::format("n_group is {}: groups of one expert have no two best", c.n_group));
}

void check_sizes(ConfigReader& root, const MlaConfig& c) {
  const auto multiple = [&](const char* what, std::int64_t value) {
    if (value % kQuantum != 0)
      root.problem(fmt::format("{} is {}, expected a multiple of {}, the width of a quantizer block", what,
                               value, kQuantum));
  };
  if (c.first_k_dense_replace > c.num_hidden_layers)
    root.problem(fmt::format("first_k_dense_replace is {} of {} layers", c.first_k_dense_replace,
                             c.num_hidden_layers));
  if (c.qk_rope_head_dim % 2 != 0)
    root.problem(
        fmt::format("qk_rope_head_dim is {}, expected an even number: RoPE turns pairs", c.qk_rope_head_dim));
  if (c.fp8) {
    multiple("hidden_size", c.hidden_size);
    multiple("intermediate_size", c.intermediate_size);
    multiple("moe_intermediate_size", c.moe_intermediate_size);
    multiple("q_lora_rank", c.q_lora_rank);
    multiple("num_attention_heads * v_head_dim", c.num_attention_heads * c.v_head_dim);
  }
  if (c.has_indexer()) {
    multiple("kv_lora_rank", c.kv_lora_rank);
    multiple("index_head_dim", c.index_head_dim);
    if ((c.index_head_dim & (c.index_head_dim - 1)) != 0)
      root.problem(
          fmt::format("index_head_dim is {}, expected a power of two: it goes through a Hadamard transform",
                      c.index_head_dim));
    if (c.qk_rope_head_dim > c.index_head_dim)
      root.problem(fmt::format("qk_rope_head_dim is {}, more than index_head_dim = {}", c.qk_rope_head_dim,
                               c.index_head_dim));
    if (c.q_lora_rank == 0)
      root.problem("q_lora_rank is missing: the indexer's queries come from the query latent");
  }
  for (const std::int64_t id : c.eos_token_ids)
    if (id >= c.vocab_size)
      root.problem(fmt::format("eos_token_id is {}, but vocab_size is {}", id, c.vocab_size));
  if (c.bos_token_id >= c.vocab_size)
    root.problem(fmt::format("bos_token_id is {}, but vocab_size is {}", c.bos_token_id, c.vocab_size));
}

}  // namespace

MlaConfig parse_mla_config(const nlohmann::json& config, const std::string& subject) {
  MlaConfig c{};
  ConfigReader root(config, subject);
  read_generation(root, c);
  read_sizes(root, c);
  read_router(root, c);
  read_fixed(root, c);
  read_quantization(root, c);
  c.num_draft_layers = root.integer_or("num_nextn_predict_layers", 0, 0, 16);
  c.eos_token_ids = root.integer_or_list("eos_token_id", 64, 0, 1 << 24);
  c.bos_token_id = root.integer_or("bos_token_id", -1, 0, 1 << 24);
  if (root.clean()) {
    check_sizes(root, c);
    check_router(root, c);
  }
  root.finish();
  return c;
}

}  // namespace seekline
