#include "checkpoint/yoco.h"

#include <fmt/format.h>

namespace seekline {
namespace {

void visit(TensorVisitor& v, const YocoConfig& config, YocoWeights& w) {
  const LlamaConfig& c = config.dense;
  const std::int64_t kv = c.num_key_value_heads * c.head_dim;
  v.plain(w.embed, "model.embed_tokens.weight", c.dtype, c.vocab_size, c.hidden_size, TensorRole::kEmbedding);
  w.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const bool self = config.is_self(layer);
    visit_dense_layer(v, c, w.layers[static_cast<std::size_t>(layer)], fmt::format("model.layers.{}.", layer),
                      self ? "self_attn." : "cross_attn.", self);
  }
  v.norm(w.memory_norm, "model.memory.norm.weight", c.hidden_size, c.dtype);
  v.linear(w.memory_k, "model.memory.k_proj.weight", kv, c.hidden_size);
  v.linear(w.memory_v, "model.memory.v_proj.weight", kv, c.hidden_size);
  v.norm(w.norm, "model.norm.weight", c.hidden_size, c.dtype);
  if (!c.tie_word_embeddings)
    v.plain(w.head, "lm_head.weight", c.dtype, c.vocab_size, c.hidden_size, TensorRole::kLinear);
}

}  // namespace

YocoConfig parse_yoco_config(const nlohmann::json& config, const std::string& subject) {
  YocoConfig c{};
  ConfigReader root(config, subject);
  root.must_be("model_type", "yoco");
  c.dense = read_dense_config(root);
  c.num_self_layers = root.integer("num_self_layers", 0, 512);
  c.sliding_window = root.integer("sliding_window", 1, 1 << 20);
  if (root.clean() && c.num_self_layers >= c.dense.num_hidden_layers)
    root.problem(
        fmt::format("num_self_layers is {} of {} layers, which leaves none that reads the shared memory",
                    c.num_self_layers, c.dense.num_hidden_layers));
  root.finish();
  return c;
}

YocoWeights load_yoco_weights(const YocoConfig& config, WeightSet& set) {
  LoadVisitor v(set);
  YocoWeights w;
  visit(v, config, w);
  if (config.dense.tie_word_embeddings) {
    w.head = w.embed;
    set.unused("lm_head.weight", "a copy of the embedding, to which the head is tied");
  }
  return w;
}

std::vector<TensorSpec> yoco_tensor_specs(const YocoConfig& config) {
  SpecVisitor v(config.dense.dtype);
  YocoWeights unused;
  visit(v, config, unused);
  return v.take();
}

}  // namespace seekline
