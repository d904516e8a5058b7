#include "model/llama.h"

#include <fmt/format.h>

#include "attention/dense_attend.h"
#include "kernels/linear.h"
#include "model/dense_block.h"
#include "model/embedding.h"
#include "model/weight_parts.h"

namespace seekline {
namespace {

class Llama final : public Network {
 public:
  Llama(LlamaConfig config, LlamaWeights weights, CachePlan plan, std::vector<WeightSet::Unused> unused)
      : config_(std::move(config)), weights_(std::move(weights)) {
    plan_ = std::move(plan);
    if (!config_.tie_word_embeddings) tables_.push_back(weights_.embed);
    unused_ = std::move(unused);
    eps_ = static_cast<float>(config_.rms_norm_eps);
    rope_ = Rope(static_cast<int>(config_.head_dim), config_.rope_theta, config_.rope_scaling,
                 config_.max_position_embeddings);
    shape_ = dense_shape(config_);
  }

  std::string family() const override { return "llama"; }
  std::string geometry() const override {
    const LlamaConfig& c = config_;
    return fmt::format("{} layers, hidden {}, {} heads x {}, {} KV heads, feed-forward {}, vocabulary {}",
                       c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.head_dim,
                       c.num_key_value_heads, c.intermediate_size, c.vocab_size);
  }
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  std::int64_t max_context() const override { return config_.max_position_embeddings; }
  std::vector<std::int64_t> eos_token_ids() const override { return config_.eos_token_ids; }
  std::int64_t bos_token_id() const override { return config_.bos_token_id; }
  std::vector<WeightPart> parts() const override { return llama_weight_parts(config_, weights_); }

  void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
               Taps* taps) const override {
    Arena::Scope scope(compute.arena);
    const TokenBatch batch = flatten(compute.arena, runs);
    MatrixView<float> h = compute.arena.matrix(batch.count, config_.hidden_size);
    embed_tokens(compute, weights_.embed, runs, h);
    const RopeAngles angles = rope_angles(compute, rope_, batch.position, batch.count);
    const int layers = static_cast<int>(config_.num_hidden_layers);
    for (int layer = 0; layer < layers; ++layer) {
      if (taps) taps->floats("hidden", layer, batch, h);
      const LlamaLayerWeights& w = weights_.layers[static_cast<std::size_t>(layer)];
      attention(compute, w, batch, layer, angles, h);
      dense_feed_forward(compute, w, eps_, h);
    }
    if (taps) taps->floats("hidden", layers, batch, h);
    const PartScope part(compute.profile, StepPart::kHead);
    const std::span<const std::int64_t> rows = wanted_rows(compute.arena, runs);
    if (rows.empty()) return;
    const MatrixView<float> last = take_rows(compute, h, rows);
    norm_rows(compute, weights_.norm, eps_, last, last);
    linear(compute, weights_.head, BlockQuantizer::kNone, last, logits, Arithmetic::kF32);
  }

 private:
  void attention(Compute& compute, const LlamaLayerWeights& w, const TokenBatch& batch, int layer,
                 const RopeAngles& angles, MatrixView<float> h) const {
    const PartScope part(compute.profile, StepPart::kAttention);
    Arena::Scope scope(compute.arena);
    const Store& store = plan_.stores[static_cast<std::size_t>(layer)];
    MatrixView<float> x = compute.arena.matrix(batch.count, h.cols);
    norm_rows(compute, w.input_layernorm, eps_, h, x);
    const DenseProjections made = project(compute, w.q_proj, w.k_proj, w.v_proj, x);
    rotate_heads(compute, made.q, shape_.heads, config_.head_dim, angles);
    rotate_heads(compute, made.kv, shape_.kv_heads, config_.head_dim, angles);
    write_rows(compute, batch, store, made.kv);
    MatrixView<float> out = compute.arena.matrix(batch.count, made.q.cols);
    dense_attend(compute, batch, layer, store, shape_, made.q, out);
    add_linear(compute, w.o_proj, out, h);
  }

  const LlamaConfig config_;
  const LlamaWeights weights_;
  float eps_ = 0;
  Rope rope_;
  DenseShape shape_;
};

}  // namespace

CachePlan plan_llama(const LlamaConfig& c, Rows rows) {
  CachePlan plan;
  plan.model = "llama";
  const RowFormat row{rows == Rows::kF32 ? RowKind::kF32 : RowKind::kBF16,
                      static_cast<int>(2 * c.num_key_value_heads * c.head_dim)};
  for (int layer = 0; layer < static_cast<int>(c.num_hidden_layers); ++layer) {
    plan.stores.push_back({layer, layer, StoreKind::kMain, row, 1, 0, fmt::format("layer {} main", layer)});
    LayerPlan layer_plan;
    layer_plan.main = layer;
    layer_plan.writes = {layer};
    layer_plan.heads = static_cast<int>(c.num_attention_heads);
    layer_plan.key_width = layer_plan.value_width = static_cast<int>(c.head_dim);
    layer_plan.select.how = Select::How::kAll;
    plan.layers.push_back(layer_plan);
  }
  return plan;
}

std::unique_ptr<Network> load_llama(const Checkpoint& checkpoint, const nlohmann::json& config,
                                    const NumericSettings& settings) {
  LlamaConfig parsed = parse_llama_config(config, (checkpoint.folder() / "config.json").string());
  WeightSet set(checkpoint);
  LlamaWeights weights = load_llama_weights(parsed, set);
  std::vector<WeightSet::Unused> unused = set.finish();
  CachePlan plan = plan_llama(parsed, settings.rows);
  return std::make_unique<Llama>(std::move(parsed), std::move(weights), std::move(plan), std::move(unused));
}

}  // namespace seekline
