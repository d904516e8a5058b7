#include "model/yoco.h"

#include <algorithm>
#include <new>

#include <fmt/format.h>

#include "attention/gather_attend.h"
#include "attention/step_ring.h"
#include "kernels/linear.h"
#include "model/dense_block.h"
#include "model/embedding.h"
#include "model/plan_parts.h"
#include "model/weight_parts.h"

namespace seekline {
namespace {

class Yoco final : public Network {
 public:
  Yoco(YocoConfig config, YocoWeights weights, CachePlan plan, std::vector<WeightSet::Unused> unused)
      : config_(std::move(config)), weights_(std::move(weights)), dense_(config_.dense) {
    plan_ = std::move(plan);
    if (!config_.dense.tie_word_embeddings) tables_.push_back(weights_.embed);
    unused_ = std::move(unused);
    eps_ = static_cast<float>(dense_.rms_norm_eps);
    rope_ = Rope(static_cast<int>(dense_.head_dim), dense_.rope_theta, dense_.rope_scaling,
                 dense_.max_position_embeddings);
    shape_ = dense_shape(dense_);
  }

  std::string family() const override { return "yoco"; }
  std::string geometry() const override {
    const LlamaConfig& c = dense_;
    return fmt::format(
        "{} layers ({} with windows of {}, {} on one memory), hidden {}, {} heads x {}, {} KV heads, "
        "feed-forward {}, vocabulary {}",
        c.num_hidden_layers, config_.num_self_layers, config_.sliding_window,
        c.num_hidden_layers - config_.num_self_layers, c.hidden_size, c.num_attention_heads, c.head_dim,
        c.num_key_value_heads, c.intermediate_size, c.vocab_size);
  }
  std::int64_t vocab_size() const override { return dense_.vocab_size; }
  std::int64_t max_context() const override { return dense_.max_position_embeddings; }
  std::vector<std::int64_t> eos_token_ids() const override { return dense_.eos_token_ids; }
  std::int64_t bos_token_id() const override { return dense_.bos_token_id; }
  std::vector<WeightPart> parts() const override { return yoco_weight_parts(config_, weights_); }

  void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
               Taps* taps) const override;

 private:
  void self_attention(Compute& compute, const TokenBatch& batch, int layer, const RopeAngles& angles,
                      MatrixView<float> h) const;
  void store_memory(Compute& compute, const TokenBatch& batch, const RopeAngles& angles,
                    MatrixView<const float> h) const;
  void cross_attention(Compute& compute, const TokenBatch& batch, int layer, const RopeAngles& angles,
                       MatrixView<float> h) const;

  const Store& store(StoreId id) const { return plan_.stores[static_cast<std::size_t>(id)]; }
  const LlamaLayerWeights& weights(int layer) const {
    return weights_.layers[static_cast<std::size_t>(layer)];
  }
  const Store& memory() const { return store(*plan_.layers.back().main); }

  const YocoConfig config_;
  const YocoWeights weights_;
  const LlamaConfig& dense_;
  float eps_ = 0;
  Rope rope_;
  DenseShape shape_;
};

// Upper layers keep no state: they need to run for no token before the first whose logits are wanted.
std::span<const Run> decoder_from_first_wanted(Arena& arena, std::span<const Run> runs) {
  Run* out = arena.array<Run>(static_cast<std::int64_t>(runs.size()));
  for (std::size_t r = 0; r < runs.size(); ++r) {
    new (out + r) Run(runs[r]);
    const std::span<const std::int32_t> wanted = runs[r].wanted_logits;
    out[r].decoder_from = wanted.empty() ? static_cast<std::int64_t>(runs[r].tokens.size())
                                         : std::max<std::int64_t>(runs[r].decoder_from, wanted.front());
  }
  return {out, runs.size()};
}

void Yoco::forward(Compute& compute, std::span<const Run> all_runs, MatrixView<float> logits,
                   Taps* taps) const {
  Arena::Scope scope(compute.arena);
  const std::span<const Run> runs = decoder_from_first_wanted(compute.arena, all_runs);
  TokenBatch batch = flatten(compute.arena, runs);
  MatrixView<float> h = compute.arena.matrix(batch.count, dense_.hidden_size);
  embed_tokens(compute, weights_.embed, runs, h);
  RopeAngles angles = rope_angles(compute, rope_, batch.position, batch.count);
  const int layers = static_cast<int>(dense_.num_hidden_layers);
  for (int layer = 0; layer < layers; ++layer) {
    if (layer == config_.num_self_layers) {
      store_memory(compute, batch, angles, h);
      const std::span<const std::int64_t> rows = decoder_rows(compute.arena, runs);
      if (rows.empty()) return;
      batch = flatten_decoder(compute.arena, runs);
      keep_rows(h, rows);
      keep_rows(angles, rows);
    }
    if (taps) taps->floats("hidden", layer, batch, h);
    if (config_.is_self(layer)) {
      self_attention(compute, batch, layer, angles, h);
    } else {
      cross_attention(compute, batch, layer, angles, h);
    }
    dense_feed_forward(compute, weights(layer), eps_, h);
  }
  if (taps) taps->floats("hidden", layers, batch, h);
  const PartScope part(compute.profile, StepPart::kHead);
  const MatrixView<float> last = take_rows(compute, h, wanted_rows(compute.arena, runs));
  norm_rows(compute, weights_.norm, eps_, last, last);
  linear(compute, weights_.head, BlockQuantizer::kNone, last, logits, Arithmetic::kF32);
}

void Yoco::self_attention(Compute& compute, const TokenBatch& batch, int layer, const RopeAngles& angles,
                          MatrixView<float> h) const {
  const PartScope part(compute.profile, StepPart::kAttention);
  Arena::Scope scope(compute.arena);
  const LlamaLayerWeights& w = weights(layer);
  MatrixView<float> x = compute.arena.matrix(batch.count, h.cols);
  norm_rows(compute, w.input_layernorm, eps_, h, x);
  const DenseProjections made = project(compute, w.q_proj, w.k_proj, w.v_proj, x);
  rotate_heads(compute, made.q, shape_.heads, dense_.head_dim, angles);
  rotate_heads(compute, made.kv, shape_.kv_heads, dense_.head_dim, angles);
  const StepRing window(compute, batch, store(*plan_.layers[static_cast<std::size_t>(layer)].window));
  for_rows(compute, batch.count, [&](std::int64_t r) { window.write(r, made.kv.row(r)); });

  RowRef* refs = compute.arena.array<RowRef>(batch.count * config_.sliding_window);
  GatherQuery* queries = compute.arena.array<GatherQuery>(batch.count);
  for (std::int64_t r = 0; r < batch.count; ++r) {
    const FlatRun& run = batch.run(r);
    RowRef* seen = refs + r * config_.sliding_window;
    const std::int64_t begin = window.window_begin(run, batch.position[r]);
    const int count = static_cast<int>(batch.position[r] + 1 - begin);
    for (int i = 0; i < count; ++i) seen[i] = window.at(run, begin + i);
    new (queries + r) GatherQuery{made.q.row(r), made.q.row(r), {{&window.format(), seen, count}, {}}};
    run.cache->ledger().read(layer, window.id(), count);
  }
  GatherShape gather;
  gather.heads = shape_.heads;
  gather.kv_heads = shape_.kv_heads;
  gather.key_width = shape_.key_width;
  gather.value_width = shape_.value_width;
  gather.value_first = shape_.value_first;
  gather.scale = shape_.scale;
  gather_attend(compute, gather, {queries, static_cast<std::size_t>(batch.count)});
  window.commit();
  add_linear(compute, w.o_proj, made.q, h);
}

// The lower layers' output as keys and values for all upper layers.
void Yoco::store_memory(Compute& compute, const TokenBatch& batch, const RopeAngles& angles,
                        MatrixView<const float> h) const {
  const PartScope part(compute.profile, StepPart::kAttention);
  Arena::Scope scope(compute.arena);
  MatrixView<float> x = compute.arena.matrix(batch.count, h.cols);
  norm_rows(compute, weights_.memory_norm, eps_, h, x);
  const DenseProjections made = project(compute, {}, weights_.memory_k, weights_.memory_v, x);
  rotate_heads(compute, made.kv, shape_.kv_heads, dense_.head_dim, angles);
  write_rows(compute, batch, memory(), made.kv);
}

void Yoco::cross_attention(Compute& compute, const TokenBatch& batch, int layer, const RopeAngles& angles,
                           MatrixView<float> h) const {
  const PartScope part(compute.profile, StepPart::kAttention);
  Arena::Scope scope(compute.arena);
  const LlamaLayerWeights& w = weights(layer);
  MatrixView<float> x = compute.arena.matrix(batch.count, h.cols);
  norm_rows(compute, w.input_layernorm, eps_, h, x);
  const DenseProjections made = project(compute, w.q_proj, {}, {}, x);
  rotate_heads(compute, made.q, shape_.heads, dense_.head_dim, angles);
  MatrixView<float> out = compute.arena.matrix(batch.count, made.q.cols);
  dense_attend(compute, batch, layer, memory(), shape_, made.q, out);
  add_linear(compute, w.o_proj, out, h);
}

}  // namespace

CachePlan plan_yoco(const YocoConfig& config, Rows rows) {
  const LlamaConfig& c = config.dense;
  CachePlan plan;
  plan.model = "yoco";
  plan.window = static_cast<int>(config.sliding_window);
  plan.layers.resize(static_cast<std::size_t>(c.num_hidden_layers));
  const RowFormat row = row_format(rows, RowKind::kBF16, 2 * c.num_key_value_heads * c.head_dim);
  StoreId memory = -1;
  for (int layer = 0; layer < static_cast<int>(c.num_hidden_layers); ++layer) {
    LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(layer)];
    layer_plan.heads = static_cast<int>(c.num_attention_heads);
    layer_plan.key_width = layer_plan.value_width = static_cast<int>(c.head_dim);
    if (config.is_self(layer))
      layer_plan.window = add_store(plan, layer, StoreKind::kWindow, row, 1, config.sliding_window, "window");
    if (layer == std::max<std::int64_t>(0, config.num_self_layers - 1))
      memory = add_store(plan, layer, StoreKind::kMain, row, 1, 0, "memory");
    if (config.is_self(layer)) continue;
    layer_plan.part = Part::kDecoder;
    layer_plan.main = memory;
    layer_plan.select.how = Select::How::kAll;
  }
  return plan;
}

std::unique_ptr<Network> load_yoco(const Checkpoint& checkpoint, const nlohmann::json& config,
                                   const NumericSettings& settings) {
  YocoConfig parsed = parse_yoco_config(config, (checkpoint.folder() / "config.json").string());
  WeightSet set(checkpoint);
  YocoWeights weights = load_yoco_weights(parsed, set);
  std::vector<WeightSet::Unused> unused = set.finish();
  CachePlan plan = plan_yoco(parsed, settings.rows);
  return std::make_unique<Yoco>(std::move(parsed), std::move(weights), std::move(plan), std::move(unused));
}

}  // namespace seekline
