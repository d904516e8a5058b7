#include "model/deepseek_mla.h"

#include <fmt/format.h>

#include "kernels/linear.h"
#include "model/deepseek_mla_plan.h"
#include "model/embedding.h"
#include "model/latent_cost.h"
#include "model/merged_latent.h"
#include "model/mla_attention.h"
#include "model/mla_shape.h"
#include "model/moe.h"
#include "model/sparse_index.h"
#include "seekline/error.h"

namespace seekline {
namespace {

// What flows from layer to layer.
struct Flow {
  TokenBatch batch;
  MatrixView<float> h;  // [tokens, hidden]
  RopeAngles rope;
  Selection selection;  // V3.2: rows that the layer at work selected
  Taps* taps = nullptr;
};

class DeepseekMla final : public Network {
 public:
  DeepseekMla(MlaConfig config, MlaWeights weights, MlaPlan plan, std::vector<WeightSet::Unused> unused,
              const NumericSettings& settings)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        stores_(std::move(plan.layers)),
        heads_(mla_heads(config_, {})),
        scale_(mla_score_scale(config_)),
        eps_(static_cast<float>(config_.rms_norm_eps)),
        quantizer_(mla_quantizer(config_)),
        router_(mla_router(config_)),
        rope_(mla_rope(config_)) {
    plan_ = std::move(plan.plan);
    tables_.push_back(weights_.embed);
    unused_ = std::move(unused);
    set_order(settings);
  }

  std::string family() const override { return plan_.model; }
  std::string geometry() const override;
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  std::int64_t max_context() const override { return config_.max_position_embeddings; }
  std::vector<std::int64_t> eos_token_ids() const override { return config_.eos_token_ids; }
  std::int64_t bos_token_id() const override { return config_.bos_token_id; }
  std::vector<WeightPart> parts() const override { return mla_weight_parts(config_, weights_); }
  std::vector<std::string> notes() const override;

  void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
               Taps* taps) const override;

 private:
  void set_order(const NumericSettings& settings);
  LatentHeads heads(int layer) const { return mla_heads(config_, weights(layer).kv_b_proj); }

  void attention(Compute& compute, int layer, Flow& flow) const;
  MatrixView<float> project_queries(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const;
  void write_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const;
  MatrixView<float> attend(Compute& compute, int layer, Flow& flow, MatrixView<const float> q) const;
  void feed_forward(Compute& compute, int layer, Flow& flow) const;
  void norm(Compute& compute, const std::vector<float>& weight, MatrixView<const float> x,
            MatrixView<float> y) const;
  void add_linear(Compute& compute, const WeightView& w, BlockQuantizer quantizer, MatrixView<const float> x,
                  MatrixView<float> y) const;

  BlockQuantizer quantizer(const Compute& compute) const { return compute.activation(quantizer_); }
  const Store& store(StoreId id) const { return plan_.stores[static_cast<std::size_t>(id)]; }
  const MlaLayerWeights& weights(int layer) const { return weights_.layers[static_cast<std::size_t>(layer)]; }
  const WeightView& query_weight(int layer) const {
    return config_.q_lora_rank == 0 ? weights(layer).q_proj : weights(layer).q_b_proj;
  }

  const MlaConfig config_;
  const MlaWeights weights_;
  const std::vector<MlaLayerStores> stores_;
  const LatentHeads heads_;  // without the weight
  const float scale_, eps_;
  const BlockQuantizer quantizer_;  // of the inputs of quantized linears
  const RouterShape router_;
  const Rope rope_;
  LatentOrder asked_ = LatentOrder::kAuto, order_ = LatentOrder::kAbsorb;  // the second: what kAuto became
  Arithmetic arithmetic_ = Arithmetic::kFast;
  std::vector<MergedLatent> merged_;  // of every layer, in the order kPreMerge
};

// kAuto: what is cheaper for a decode step at half the context; absorb where tokens select, since expanding
// would serve one token only. Nothing but the geometry decides, so that a token's bits do not depend on the
// run it came in.
void DeepseekMla::set_order(const NumericSettings& settings) {
  asked_ = order_ = settings.latent_order;
  arithmetic_ = settings.arithmetic;
  if (order_ == LatentOrder::kAuto)
    order_ = config_.has_indexer() ? LatentOrder::kAbsorb
                                   : cheaper_order(heads(0), 1, mla_typical_rows(config_), true);
  if (order_ != LatentOrder::kPreMerge) return;
  if (config_.fp8 && settings.activations == Activations::kReference)
    throw Error(
        ErrorCode::kUsage,
        "latent order pre-merge: this model quantizes the input of o_proj, which merged weights swallow; "
        "set activations to plain or take another order");
  for (int layer = 0; layer < static_cast<int>(config_.num_hidden_layers); ++layer)
    merged_.push_back(merge_latent(heads(layer), query_weight(layer), weights(layer).o_proj, arithmetic_));
}

std::string DeepseekMla::geometry() const {
  const MlaConfig& c = config_;
  std::string text = fmt::format(
      "{} layers ({} dense), hidden {}, {} heads x {} over latents of {} + {}, {} experts top {} + {} shared "
      "x {}, vocabulary {}",
      c.num_hidden_layers, c.first_k_dense_replace, c.hidden_size, c.num_attention_heads, c.v_head_dim,
      c.kv_lora_rank, c.qk_rope_head_dim, c.n_routed_experts, c.num_experts_per_tok, c.n_shared_experts,
      c.moe_intermediate_size, c.vocab_size);
  if (c.has_indexer())
    text += fmt::format(", index of {} heads x {} top {}", c.index_n_heads, c.index_head_dim, c.index_topk);
  return text;
}

void DeepseekMla::forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
                          Taps* taps) const {
  Arena::Scope scope(compute.arena);
  Flow flow;
  flow.taps = taps;
  flow.batch = flatten(compute.arena, runs);
  flow.h = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  embed_tokens(compute, weights_.embed, runs, flow.h);
  flow.rope = rope_angles(compute, rope_, flow.batch.position, flow.batch.count);
  if (config_.has_indexer())
    flow.selection = new_selection(compute.arena, flow.batch.count, config_.index_topk);
  const int layers = static_cast<int>(config_.num_hidden_layers);
  for (int layer = 0; layer < layers; ++layer) {
    if (taps) taps->floats("hidden", layer, flow.batch, flow.h);
    attention(compute, layer, flow);
    feed_forward(compute, layer, flow);
  }
  if (taps) taps->floats("hidden", layers, flow.batch, flow.h);
  const PartScope part(compute.profile, StepPart::kHead);
  const std::span<const std::int64_t> rows = wanted_rows(compute.arena, runs);
  if (rows.empty()) return;
  const MatrixView<float> last = take_rows(compute, flow.h, rows);
  norm(compute, weights_.norm, last, last);
  linear(compute, weights_.head, BlockQuantizer::kNone, last, logits, Arithmetic::kF32);
}

void DeepseekMla::norm(Compute& compute, const std::vector<float>& weight, MatrixView<const float> x,
                       MatrixView<float> y) const {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, x.rows, [&](std::int64_t r) {
    compute.kernels.rms_norm(x.row(r), weight.data(), x.cols, eps_, y.row(r));
  });
}

// y += w * x
void DeepseekMla::add_linear(Compute& compute, const WeightView& w, BlockQuantizer quantizer,
                             MatrixView<const float> x, MatrixView<float> y) const {
  Arena::Scope scope(compute.arena);
  const Product product{w, prepare_rows(compute, w.kind, compute.settings.arithmetic, quantizer, x),
                        row_pointers(compute, y), true};
  run_products(compute, {&product, 1});
}

void DeepseekMla::attention(Compute& compute, int layer, Flow& flow) const {
  Arena::Scope scope(compute.arena);
  const PartScope part(compute.profile, StepPart::kAttention);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  norm(compute, weights(layer).input_layernorm, flow.h, x);
  write_latents(compute, layer, flow, x);
  const MatrixView<float> q = project_queries(compute, layer, flow, x);
  const MatrixView<float> out = attend(compute, layer, flow, q);
  if (order_ == LatentOrder::kPreMerge) {
    add_linear(compute, merged_[static_cast<std::size_t>(layer)].output, BlockQuantizer::kNone, out, flow.h);
  } else {
    add_linear(compute, weights(layer).o_proj, quantizer(compute), out, flow.h);
  }
}

// Main rows of all tokens: the normalised latent and the rotary key; those below the write floor are there
// already.
void DeepseekMla::write_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const {
  Arena::Scope scope(compute.arena);
  const MlaLayerWeights& w = weights(layer);
  const Store& main = store(stores_[static_cast<std::size_t>(layer)].main);
  MatrixView<float> kv = compute.arena.matrix(flow.batch.count, heads_.latent_width());
  linear(compute, w.kv_a_proj, quantizer(compute), x, kv, compute.settings.arithmetic);
  for_rows(compute, flow.batch.count, [&](std::int64_t r) {
    const FlatRun& run = flow.batch.run(r);
    if (flow.batch.position[r] < run.write_floor) return;
    compute.kernels.rms_norm(kv.row(r), w.kv_a_layernorm.data(), heads_.latent, eps_, kv.row(r));
    rotate(kv.row(r) + heads_.latent, flow.rope.cos_row(r), flow.rope.sin_row(r), flow.rope.pairs,
           RopeLayout::kInterleaved);
    const MutableRow row = run.cache->mutable_row(main.id, flow.batch.position[r]);
    compute.kernels.encode_row(main.row, kv.row(r), row.data, row.scale);
  });
  for (const FlatRun& run : flow.batch.runs) run.cache->ledger().wrote(main.id, run.rows_written());
}

// q [tokens, heads * (nope + rope)], or of the latent where weights are merged; rotary channels turned. Where
// there is an indexer it selects on the way, from the same low-rank query.
MatrixView<float> DeepseekMla::project_queries(Compute& compute, int layer, Flow& flow,
                                               MatrixView<const float> x) const {
  const MlaLayerWeights& w = weights(layer);
  const bool merged = order_ == LatentOrder::kPreMerge;
  const WeightView& q_weight = merged ? merged_[static_cast<std::size_t>(layer)].query : query_weight(layer);
  MatrixView<float> q = compute.arena.matrix(flow.batch.count, q_weight.rows);
  Arena::Scope scope(compute.arena);
  MatrixView<const float> input = x;
  if (config_.q_lora_rank != 0) {
    MatrixView<float> qr = compute.arena.matrix(flow.batch.count, config_.q_lora_rank);
    linear(compute, w.q_a_proj, quantizer(compute), x, qr, compute.settings.arithmetic);
    norm(compute, w.q_a_layernorm, qr, qr);
    input = qr;
  }
  linear(compute, q_weight, quantizer(compute), input, q, compute.settings.arithmetic);
  const int width = merged ? heads_.latent_width() : heads_.key_width();
  for_rows(compute, q.rows, [&](std::int64_t r) {
    for (int h = 0; h < heads_.heads; ++h)
      rotate(q.row(r) + std::int64_t{h + 1} * width - heads_.rope, flow.rope.cos_row(r), flow.rope.sin_row(r),
             flow.rope.pairs, RopeLayout::kInterleaved);
  });
  if (!config_.has_indexer()) return q;
  const Store& keys = store(stores_[static_cast<std::size_t>(layer)].index_key);
  const SparseIndexShape shape{static_cast<int>(config_.index_n_heads),
                               static_cast<int>(config_.index_head_dim), quantizer(compute)};
  const SparseIndexWeights index{w.indexer_wq_b, w.indexer_wk, w.indexer_weights_proj, &w.indexer_k_norm,
                                 &w.indexer_k_norm_bias};
  write_index_keys(compute, shape, index, flow.batch, keys, flow.rope, x);
  select_by_index(compute, shape, index, flow.batch, layer, keys, flow.rope, input, x, flow.selection);
  if (flow.taps) flow.taps->lists("topk", layer, flow.batch, flow.selection);
  return q;
}

// The input of o_proj [tokens, heads * value], or averages of the latent where weights are merged.
MatrixView<float> DeepseekMla::attend(Compute& compute, int layer, Flow& flow,
                                      MatrixView<const float> q) const {
  const LatentHeads heads = this->heads(layer);
  LatentRows rows;
  rows.layer = layer;
  rows.store = &store(stores_[static_cast<std::size_t>(layer)].main);
  rows.selection = config_.has_indexer() ? &flow.selection : nullptr;
  rows.scale = scale_;
  rows.taps = flow.taps;
  const bool merged = order_ == LatentOrder::kPreMerge;
  const MatrixView<float> out =
      compute.arena.matrix(q.rows, std::int64_t{heads.heads} * (merged ? heads.latent : heads.value));
  const auto attend = merged                           ? attend_latents
                      : order_ == LatentOrder::kExpand ? attend_expanded
                      : order_ == LatentOrder::kByCost ? attend_by_cost
                                                       : attend_absorbed;
  attend(compute, heads, flow.batch, rows, q, out);
  return out;
}

void DeepseekMla::feed_forward(Compute& compute, int layer, Flow& flow) const {
  Arena::Scope scope(compute.arena);
  const MlaLayerWeights& w = weights(layer);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  MatrixView<float> y = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  norm(compute, w.post_attention_layernorm, flow.h, x);
  ExpertShape shape;
  shape.quantizer = quantizer(compute);
  shape.weigh_output = true;
  if (config_.is_dense(layer)) {
    shape.shared_part = StepPart::kFeedForward;
    mixture(compute, shape, {}, {&w.mlp, 1}, {}, x, y);
  } else {
    MatrixView<float> logits = compute.arena.matrix(flow.batch.count, config_.n_routed_experts);
    Routing routing;
    {
      const PartScope part(compute.profile, StepPart::kRouter);
      linear(compute, w.gate, BlockQuantizer::kNone, x, logits, Arithmetic::kF32);
      routing = route(compute, router_, logits, w.gate_bias.empty() ? nullptr : w.gate_bias.data());
    }
    if (flow.taps) flow.taps->experts(layer, flow.batch, routing);
    const std::size_t shared = w.shared.w1.empty() ? 0 : 1;
    mixture(compute, shape, w.experts, {&w.shared, shared}, routing, x, y);
  }
  for_rows(compute, y.rows,
           [&](std::int64_t r) { compute.kernels.axpy(1.0f, y.row(r), y.cols, flow.h.row(r)); });
}

std::vector<std::string> DeepseekMla::notes() const {
  std::vector<std::string> notes =
      latent_order_notes(heads(0), asked_, order_, mla_typical_rows(config_), !config_.has_indexer());
  std::int64_t apart = 0, merged = 0;
  for (int layer = 0; layer < static_cast<int>(config_.num_hidden_layers); ++layer) {
    const MlaLayerWeights& w = weights(layer);
    apart += query_weight(layer).bytes() + w.kv_b_proj.bytes() + w.o_proj.bytes();
    merged += merged_bytes(heads(layer), query_weight(layer), w.o_proj, arithmetic_);
  }
  notes.push_back(fmt::format(
      "latent order pre-merge {} {} bytes of merged weights for {} bytes of q, kv_b and o ({:.2f} times)",
      order_ == LatentOrder::kPreMerge ? "holds" : "would hold", merged, apart,
      static_cast<double>(merged) / static_cast<double>(apart)));
  return notes;
}

}  // namespace

std::unique_ptr<Network> load_deepseek_mla(const Checkpoint& checkpoint, const nlohmann::json& config,
                                           const NumericSettings& settings) {
  MlaConfig parsed = parse_mla_config(config, (checkpoint.folder() / "config.json").string());
  WeightSet set(checkpoint);
  MlaWeights weights = load_mla_weights(parsed, set);
  std::vector<WeightSet::Unused> unused = set.finish();
  MlaPlan plan = plan_mla(parsed, settings.rows);
  return std::make_unique<DeepseekMla>(std::move(parsed), std::move(weights), std::move(plan),
                                       std::move(unused), settings);
}

}  // namespace seekline
