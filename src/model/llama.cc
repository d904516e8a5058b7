#include "model/llama.h"

#include <cmath>

#include <fmt/format.h>

#include "attention/dense_attend.h"
#include "attention/rope.h"
#include "kernels/linear.h"
#include "model/embedding.h"
#include "model/weight_parts.h"

namespace seekline {
namespace {

class Llama final : public Network {
 public:
  Llama(LlamaConfig config, LlamaWeights weights, CachePlan plan, std::vector<WeightSet::Unused> unused)
      : config_(std::move(config)), weights_(std::move(weights)) {
    plan_ = std::move(plan);
    unused_ = std::move(unused);
    const LlamaConfig& c = config_;
    eps_ = static_cast<float>(c.rms_norm_eps);
    rope_ = Rope(static_cast<int>(c.head_dim), c.rope_theta, c.rope_scaling, c.max_position_embeddings);
    shape_.heads = static_cast<int>(c.num_attention_heads);
    shape_.kv_heads = static_cast<int>(c.num_key_value_heads);
    shape_.key_width = shape_.value_width = static_cast<int>(c.head_dim);
    shape_.value_first = static_cast<int>(c.num_key_value_heads * c.head_dim);
    shape_.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(c.head_dim)));
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
      feed_forward(compute, w, h);
    }
    if (taps) taps->floats("hidden", layers, batch, h);
    const PartScope part(compute.profile, StepPart::kHead);
    const std::span<const std::int64_t> rows = wanted_rows(compute.arena, runs);
    if (rows.empty()) return;
    const MatrixView<float> last = take_rows(compute, h, rows);
    norm(compute, weights_.norm, last, last);
    linear(compute, weights_.head, BlockQuantizer::kNone, last, logits, Arithmetic::kF32);
  }

 private:
  void norm(Compute& compute, const std::vector<float>& weight, MatrixView<const float> x,
            MatrixView<float> y) const {
    const PartScope part(compute.profile, StepPart::kElementwise);
    for_rows(compute, x.rows, [&](std::int64_t r) {
      compute.kernels.rms_norm(x.row(r), weight.data(), x.cols, eps_, y.row(r));
    });
  }

  // y += w * x
  void add_linear(Compute& compute, const WeightView& w, MatrixView<const float> x,
                  MatrixView<float> y) const {
    const Product product{
        w, prepare_rows(compute, w.kind, compute.settings.arithmetic, BlockQuantizer::kNone, x),
        row_pointers(compute, y), true};
    run_products(compute, {&product, 1});
  }

  void attention(Compute& compute, const LlamaLayerWeights& w, const TokenBatch& batch, int layer,
                 const RopeAngles& angles, MatrixView<float> h) const {
    const PartScope part(compute.profile, StepPart::kAttention);
    Arena::Scope scope(compute.arena);
    const Store& store = plan_.stores[static_cast<std::size_t>(layer)];
    MatrixView<float> x = compute.arena.matrix(batch.count, h.cols);
    norm(compute, w.input_layernorm, h, x);
    MatrixView<float> q = compute.arena.matrix(batch.count, w.q_proj.rows);
    MatrixView<float> kv = compute.arena.matrix(batch.count, w.k_proj.rows + w.v_proj.rows);
    const PreparedRows input =
        prepare_rows(compute, w.q_proj.kind, compute.settings.arithmetic, BlockQuantizer::kNone, x);
    const Product products[] = {
        {w.q_proj, input, row_pointers(compute, q)},
        {w.k_proj, input, row_pointers(compute, kv.cols_from(0, w.k_proj.rows))},
        {w.v_proj, input, row_pointers(compute, kv.cols_from(w.k_proj.rows, w.v_proj.rows))}};
    run_products(compute, products);
    for_rows(compute, batch.count, [&](std::int64_t r) {
      rotate_heads(q.row(r), shape_.heads, angles, r);
      rotate_heads(kv.row(r), shape_.kv_heads, angles, r);
      const MutableRow row = batch.run(r).cache->mutable_row(store.id, batch.position[r]);
      compute.kernels.encode_row(store.row, kv.row(r), row.data, row.scale);
    });
    for (const FlatRun& run : batch.runs) run.cache->ledger().wrote(store.id, run.count);
    MatrixView<float> out = compute.arena.matrix(batch.count, q.cols);
    dense_attend(compute, batch, layer, store, shape_, q, out);
    add_linear(compute, w.o_proj, out, h);
  }

  void rotate_heads(float* x, int heads, const RopeAngles& angles, std::int64_t row) const {
    for (int head = 0; head < heads; ++head)
      rotate(x + head * config_.head_dim, angles.cos_row(row), angles.sin_row(row), angles.pairs,
             RopeLayout::kHalfSplit);
  }

  void feed_forward(Compute& compute, const LlamaLayerWeights& w, MatrixView<float> h) const {
    const PartScope part(compute.profile, StepPart::kFeedForward);
    Arena::Scope scope(compute.arena);
    MatrixView<float> x = compute.arena.matrix(h.rows, h.cols);
    norm(compute, w.post_attention_layernorm, h, x);
    MatrixView<float> gate = compute.arena.matrix(h.rows, w.gate_proj.rows);
    MatrixView<float> up = compute.arena.matrix(h.rows, w.up_proj.rows);
    const PreparedRows input =
        prepare_rows(compute, w.gate_proj.kind, compute.settings.arithmetic, BlockQuantizer::kNone, x);
    const Product products[] = {{w.gate_proj, input, row_pointers(compute, gate)},
                                {w.up_proj, input, row_pointers(compute, up)}};
    run_products(compute, products);
    for_rows(compute, h.rows, [&](std::int64_t r) {
      compute.kernels.swiglu(gate.row(r), up.row(r), gate.cols, 0, 1.0f, gate.row(r));
    });
    add_linear(compute, w.down_proj, gate, h);
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
