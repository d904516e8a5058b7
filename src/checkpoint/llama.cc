// Dense decoders: config.json and tensors in Hugging Face names.
#include "checkpoint/llama.h"

#include <fmt/format.h>

#include "checkpoint/rope_config.h"

namespace seekline {
namespace {

constexpr std::int64_t kMaxWidth = 1 << 20;

void read_sizes(ConfigReader& root, LlamaConfig& c) {
  c.vocab_size = root.integer("vocab_size", 1, 1 << 24);
  c.hidden_size = root.integer("hidden_size", 1, kMaxWidth);
  c.intermediate_size = root.integer("intermediate_size", 1, kMaxWidth);
  c.num_hidden_layers = root.integer("num_hidden_layers", 1, 512);
  c.num_attention_heads = root.integer("num_attention_heads", 1, 4096);
  c.num_key_value_heads = root.integer_or("num_key_value_heads", c.num_attention_heads, 1, 4096);
  c.head_dim = root.integer_or("head_dim", 0, 1, 4096);
  c.max_position_embeddings = root.integer("max_position_embeddings", 1, std::int64_t{1} << 30);
  c.rms_norm_eps = root.number("rms_norm_eps", 1e-30, 1);
  c.tie_word_embeddings = root.boolean_or("tie_word_embeddings", false);
  RopeKinds kinds;
  kinds.linear = kinds.llama3 = kinds.attention_factor = true;
  if (root.has("rope_parameters")) {  // newer transformers keep the base there as well
    root.refuse("rope_theta", "rope_parameters is there, too");
    root.refuse("rope_scaling", "rope_parameters is there, too");
    c.rope_scaling = read_rope_scaling(root, "rope_parameters", "", kinds, &c.rope_theta);
  } else {
    c.rope_theta = root.number_or("rope_theta", 10000, 1, 1e12);
    c.rope_scaling = read_rope_scaling(root, "rope_scaling", "", kinds);
  }
  c.eos_token_ids = root.integer_or_list("eos_token_id", 64, 0, 1 << 24);
  c.bos_token_id = root.integer_or("bos_token_id", -1, 0, 1 << 24);
}

// Keys that are honoured in one value only, and keys that change no output.
void read_fixed(ConfigReader& root, LlamaConfig& c) {
  root.must_be("hidden_act", "silu");
  root.must_be("attention_bias", false);
  root.must_be("mlp_bias", false);
  root.must_be("rope_interleaved", false);
  const std::string dtype =
      root.has("dtype") ? root.string("dtype") : root.string_or("torch_dtype", "bfloat16");
  c.dtype = dtype == "float32" ? DType::kF32 : dtype == "float16" ? DType::kF16 : DType::kBF16;
  root.ignore({"architectures", "dtype", "torch_dtype", "transformers_version", "_name_or_path",
               "initializer_range", "use_cache", "attention_dropout", "pretraining_tp", "pad_token_id",
               "is_llama_config", "transformers.js_config"});
}

void check_sizes(ConfigReader& root, LlamaConfig& c) {
  if (c.head_dim == 0) {
    if (c.hidden_size % c.num_attention_heads != 0)
      return root.problem(fmt::format(
          "hidden_size is {}, which num_attention_heads = {} does not divide, and head_dim is not given",
          c.hidden_size, c.num_attention_heads));
    c.head_dim = c.hidden_size / c.num_attention_heads;
  }
  if (c.head_dim % 2 != 0)
    root.problem(fmt::format("head_dim is {}, expected an even number: RoPE turns pairs", c.head_dim));
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    root.problem(fmt::format("num_attention_heads is {}, which num_key_value_heads = {} does not divide",
                             c.num_attention_heads, c.num_key_value_heads));
  for (const std::int64_t id : c.eos_token_ids)
    if (id >= c.vocab_size)
      root.problem(fmt::format("eos_token_id is {}, but vocab_size is {}", id, c.vocab_size));
  if (c.bos_token_id >= c.vocab_size)
    root.problem(fmt::format("bos_token_id is {}, but vocab_size is {}", c.bos_token_id, c.vocab_size));
}

void visit(TensorVisitor& v, const LlamaConfig& c, LlamaWeights& w) {
  v.plain(w.embed, "model.embed_tokens.weight", c.dtype, c.vocab_size, c.hidden_size, TensorRole::kEmbedding);
  w.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::size_t layer = 0; layer < w.layers.size(); ++layer)
    visit_dense_layer(v, c, w.layers[layer], fmt::format("model.layers.{}.", layer), "self_attn.", true);
  v.norm(w.norm, "model.norm.weight", c.hidden_size, c.dtype);
  if (!c.tie_word_embeddings) v.plain(w.head, "lm_head.weight", c.dtype, c.vocab_size, c.hidden_size);
}

}  // namespace

void visit_dense_layer(TensorVisitor& v, const LlamaConfig& c, LlamaLayerWeights& w, const std::string& p,
                       const std::string& attention, bool keys_and_values) {
  const std::int64_t hidden = c.hidden_size, q = c.num_attention_heads * c.head_dim,
                     kv = c.num_key_value_heads * c.head_dim;
  v.norm(w.input_layernorm, p + "input_layernorm.weight", hidden, c.dtype);
  v.linear(w.q_proj, p + attention + "q_proj.weight", q, hidden);
  if (keys_and_values) {
    v.linear(w.k_proj, p + attention + "k_proj.weight", kv, hidden);
    v.linear(w.v_proj, p + attention + "v_proj.weight", kv, hidden);
  }
  v.linear(w.o_proj, p + attention + "o_proj.weight", hidden, q);
  v.norm(w.post_attention_layernorm, p + "post_attention_layernorm.weight", hidden, c.dtype);
  v.linear(w.gate_proj, p + "mlp.gate_proj.weight", c.intermediate_size, hidden);
  v.linear(w.up_proj, p + "mlp.up_proj.weight", c.intermediate_size, hidden);
  v.linear(w.down_proj, p + "mlp.down_proj.weight", hidden, c.intermediate_size);
}

LlamaConfig read_dense_config(ConfigReader& root) {
  LlamaConfig c{};
  read_fixed(root, c);
  read_sizes(root, c);
  if (root.clean()) check_sizes(root, c);
  return c;
}

LlamaConfig parse_llama_config(const nlohmann::json& config, const std::string& subject) {
  ConfigReader root(config, subject);
  root.must_be("model_type", "llama");
  const LlamaConfig c = read_dense_config(root);
  root.finish();
  return c;
}

LlamaWeights load_llama_weights(const LlamaConfig& config, WeightSet& set) {
  LoadVisitor v(set);
  LlamaWeights w;
  visit(v, config, w);
  if (config.tie_word_embeddings) {
    w.head = w.embed;
    set.unused("lm_head.weight", "a copy of the embedding, to which the head is tied");
  }
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    set.unused(fmt::format("model.layers.{}.self_attn.rotary_emb.inv_freq", layer),
               "RoPE frequencies, which follow from the config");
  return w;
}

std::vector<TensorSpec> llama_tensor_specs(const LlamaConfig& config) {
  SpecVisitor v(config.dtype);
  LlamaWeights unused;
  visit(v, config, unused);
  return v.take();
}

}  // namespace seekline
