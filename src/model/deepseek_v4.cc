#include "model/deepseek_v4.h"

#include <fmt/format.h>

#include "attention/compressor.h"
#include "formats/hadamard.h"
#include "kernels/linear.h"
#include "model/deepseek_v4_plan.h"
#include "model/embedding.h"
#include "model/hyper_connection.h"
#include "model/latent_attention.h"
#include "model/moe.h"
#include "model/weight_parts.h"

namespace seekline {
namespace {

constexpr float kQueryNormEps = 1e-6f;  // of the weightless norm of each query head; no key of the config

// What flows from layer to layer.
struct Flow {
  TokenBatch batch;
  std::span<const std::int32_t> tokens;  // of the whole batch, for layers that route by token
  MatrixView<float> h;                   // [tokens, hc * hidden] residual streams
  RopeAngles rope, compressed_rope;
  Selection selection;  // of the layer at work
  Taps* taps = nullptr;
};

class DeepseekV4 final : public Network {
 public:
  DeepseekV4(V4Config config, V4Weights weights, V4Plan plan, std::vector<WeightSet::Unused> unused)
      : config_(std::move(config)), weights_(std::move(weights)), stores_(std::move(plan.layers)) {
    plan_ = std::move(plan.plan);
    tables_.push_back(weights_.embed);
    unused_ = std::move(unused);
    set_shapes();
  }

  std::string family() const override { return "deepseek_v4"; }
  std::string geometry() const override {
    const V4Config& c = config_;
    return fmt::format(
        "{} layers, hidden {}, {} heads x {}, window {}, {} experts top {} + {} shared x {}, vocabulary {}",
        c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.head_dim, c.sliding_window,
        c.n_routed_experts, c.num_experts_per_tok, c.n_shared_experts, c.moe_intermediate_size, c.vocab_size);
  }
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  std::int64_t max_context() const override { return config_.max_position_embeddings; }
  std::vector<std::int64_t> eos_token_ids() const override { return config_.eos_token_ids; }
  std::int64_t bos_token_id() const override { return config_.bos_token_id; }
  std::vector<WeightPart> parts() const override { return v4_weight_parts(config_, weights_); }

  void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
               Taps* taps) const override;

 private:
  void set_shapes();
  Flow start(Compute& compute, std::span<const Run> runs, Taps* taps) const;
  void run_layer(Compute& compute, int layer, Flow& flow) const;
  void store_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const;
  void store_index_keys(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const;
  void attention(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                 MatrixView<float> y) const;
  void select(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
              MatrixView<const float> qr) const;
  void feed_forward(Compute& compute, int layer, Flow& flow) const;
  Routing route_tokens(Compute& compute, int layer, const Flow& flow, MatrixView<const float> x) const;

  BlockQuantizer quantizer(const Compute& compute) const {
    return compute.activation(BlockQuantizer::kFp8Block128);
  }
  const Store& store(StoreId id) const { return plan_.stores[static_cast<std::size_t>(id)]; }
  const V4LayerStores& stores(int layer) const { return stores_[static_cast<std::size_t>(layer)]; }
  const V4LayerWeights& weights(int layer) const { return weights_.layers[static_cast<std::size_t>(layer)]; }
  bool compresses(int layer) const { return stores(layer).main >= 0; }
  const RopeAngles& rope(const Flow& flow, int layer) const {
    return compresses(layer) ? flow.compressed_rope : flow.rope;
  }

  const V4Config config_;
  const V4Weights weights_;
  const std::vector<V4LayerStores> stores_;
  HyperConnectionShape streams_;
  LatentAttentionShape attention_;
  RouterShape router_;
  Rope rope_, compressed_rope_;
};

void DeepseekV4::set_shapes() {
  const V4Config& c = config_;
  streams_ = {static_cast<int>(c.hc_mult), c.hidden_size, static_cast<int>(c.hc_sinkhorn_iters),
              static_cast<float>(c.hc_eps), static_cast<float>(c.rms_norm_eps)};
  attention_.heads = static_cast<int>(c.num_attention_heads);
  attention_.head_dim = static_cast<int>(c.head_dim);
  attention_.rope_dims = static_cast<int>(c.qk_rope_head_dim);
  attention_.o_groups = static_cast<int>(c.o_groups);
  attention_.window = static_cast<int>(c.sliding_window);
  attention_.norm_eps = static_cast<float>(c.rms_norm_eps);
  router_.experts = static_cast<int>(c.n_routed_experts);
  router_.top = static_cast<int>(c.num_experts_per_tok);
  router_.normalise = c.norm_topk_prob;
  router_.scaling = static_cast<float>(c.routed_scaling_factor);
  rope_ = Rope(attention_.rope_dims, c.rope_theta, {}, c.max_position_embeddings);
  compressed_rope_ =
      Rope(attention_.rope_dims, c.compress_rope_theta, c.rope_scaling, c.max_position_embeddings);
}

void DeepseekV4::forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
                         Taps* taps) const {
  Arena::Scope scope(compute.arena);
  Flow flow = start(compute, runs, taps);
  const int layers = static_cast<int>(config_.num_hidden_layers);
  for (int layer = 0; layer < layers; ++layer) run_layer(compute, layer, flow);
  if (taps) taps->floats("stream", layers, flow.batch, flow.h);
  const PartScope part(compute.profile, StepPart::kHead);
  const std::span<const std::int64_t> rows = wanted_rows(compute.arena, runs);
  if (rows.empty()) return;
  const MatrixView<float> h = take_rows(compute, flow.h, rows);
  MatrixView<float> x = compute.arena.matrix(h.rows, config_.hidden_size);
  collapse_and_norm(compute, streams_, h, hyper_head(compute, streams_, weights_.hc_head, h), weights_.norm,
                    x);
  linear(compute, weights_.head, BlockQuantizer::kNone, x, logits, Arithmetic::kF32);
}

Flow DeepseekV4::start(Compute& compute, std::span<const Run> runs, Taps* taps) const {
  Flow flow;
  flow.taps = taps;
  flow.batch = flatten(compute.arena, runs);
  flow.tokens = flat_tokens(compute.arena, runs);
  const std::int64_t tokens = flow.batch.count;
  flow.h = compute.arena.matrix(tokens, streams_.streams * config_.hidden_size);
  embed_streams(compute, weights_.embed, runs, streams_.streams, flow.h);
  flow.rope = rope_angles(compute, rope_, flow.batch.position, tokens);
  flow.compressed_rope = rope_angles(compute, compressed_rope_, flow.batch.position, tokens);
  flow.selection = new_selection(compute.arena, tokens, config_.index_topk);
  return flow;
}

void DeepseekV4::run_layer(Compute& compute, int layer, Flow& flow) const {
  Arena::Scope scope(compute.arena);
  const V4LayerWeights& w = weights(layer);
  if (flow.taps) flow.taps->floats("stream", layer, flow.batch, flow.h);
  const SiteMix mix = site_mix(compute, streams_, w.hc_attn, flow.h);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  MatrixView<float> y = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  collapse_and_norm(compute, streams_, flow.h, mix.pre, w.attn_norm, x);
  if (compresses(layer)) store_latents(compute, layer, flow, x);
  if (config_.is_csa(layer)) store_index_keys(compute, layer, flow, x);
  attention(compute, layer, flow, x, y);
  mix_streams(compute, streams_, mix, y, flow.h);
  feed_forward(compute, layer, flow);
}

// Main rows of the groups that end in this step.
void DeepseekV4::store_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const {
  const PartScope part(compute.profile, StepPart::kIndexer);
  Arena::Scope scope(compute.arena);
  const Latents latents =
      compress(compute, flow.batch, weights(layer).compressor,
               v4_compressor_shape(config_, layer, config_.head_dim), &store(stores(layer).tail), x);
  const RopeAngles angles = group_angles(compute, compressed_rope_, latents.groups);
  rotate_tails(compute, latents.values, 1, attention_.head_dim, angles);
  append_rows(compute, flow.batch, latents.groups, store(stores(layer).main), latents.values);
}

// Index keys of the same groups: a compressor of their own, RoPE, Hadamard.
void DeepseekV4::store_index_keys(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const {
  const PartScope part(compute.profile, StepPart::kIndexer);
  Arena::Scope scope(compute.arena);
  const Latents keys = compress(compute, flow.batch, weights(layer).indexer_compressor,
                                v4_compressor_shape(config_, layer, config_.index_head_dim),
                                &store(stores(layer).index_tail), x);
  const RopeAngles angles = group_angles(compute, compressed_rope_, keys.groups);
  rotate_tails(compute, keys.values, 1, static_cast<int>(config_.index_head_dim), angles);
  for_rows(compute, keys.values.rows, [&](std::int64_t g) { hadamard(keys.values.row_span(g)); });
  append_rows(compute, flow.batch, keys.groups, store(stores(layer).index_key), keys.values);
}

void DeepseekV4::attention(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                           MatrixView<float> y) const {
  const PartScope part(compute.profile, StepPart::kAttention);
  const V4LayerWeights& w = weights(layer);
  LatentAttentionShape shape = attention_;
  shape.quantizer = quantizer(compute);
  Arena::Scope scope(compute.arena);
  const LatentAttentionWeights latent{
      w.wq_a, w.wq_b, w.wkv, w.wo_a, w.wo_b, w.q_norm, w.kv_norm, w.attn_sink.data(), kQueryNormEps};
  const StepRing window(compute, flow.batch, store(stores(layer).window));
  const RopeAngles& angles = rope(flow, layer);
  const MatrixView<float> qr = low_queries_and_window_rows(compute, shape, latent, angles, x, window);
  if (config_.is_csa(layer)) select(compute, layer, flow, x, qr);
  SelectedRows selected;
  if (compresses(layer)) selected.store = &store(stores(layer).main);
  if (config_.is_csa(layer)) selected.selection = &flow.selection;
  latent_attention(compute, shape, latent, flow.batch, layer, selected, window, angles, qr, y, flow.taps);
  window.commit();
}

void DeepseekV4::select(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                        MatrixView<const float> qr) const {
  const PartScope part(compute.profile, StepPart::kIndexer);
  const V4LayerWeights& w = weights(layer);
  Arena::Scope scope(compute.arena);
  const IndexQueries index =
      index_queries(compute, quantizer(compute), w.indexer_wq_b, w.indexer_weights_proj,
                    static_cast<int>(config_.index_head_dim), flow.compressed_rope, qr, x);
  const auto width = static_cast<std::size_t>(config_.index_head_dim);
  for_rows(compute, flow.batch.count, [&](std::int64_t r) {
    const std::span<float> heads = index.queries.row_span(r);
    for (std::size_t first = 0; first < heads.size(); first += width) hadamard(heads.subspan(first, width));
  });
  IndexRequest request;
  request.layer = layer;
  request.keys = &store(stores(layer).index_key);
  request.queries = index.queries;
  request.weights = index.weights;
  request.heads = static_cast<int>(config_.index_n_heads);
  request.rows = &flow.selection;
  select_rows(compute, flow.batch, request);
  if (flow.taps) flow.taps->lists("topk", layer, flow.batch, flow.selection);
}

void DeepseekV4::feed_forward(Compute& compute, int layer, Flow& flow) const {
  const V4LayerWeights& w = weights(layer);
  const SiteMix mix = site_mix(compute, streams_, w.hc_ffn, flow.h);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  MatrixView<float> y = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  collapse_and_norm(compute, streams_, flow.h, mix.pre, w.ffn_norm, x);
  const Routing routing = route_tokens(compute, layer, flow, x);
  if (flow.taps) flow.taps->experts(layer, flow.batch, routing);
  mixture(compute, {quantizer(compute), static_cast<float>(config_.swiglu_limit)}, w.experts,
          w.shared_experts, routing, x, y);
  mix_streams(compute, streams_, mix, y, flow.h);
}

// The first layers take the experts from a table by token; scores weigh them all the same.
Routing DeepseekV4::route_tokens(Compute& compute, int layer, const Flow& flow,
                                 MatrixView<const float> x) const {
  const PartScope part(compute.profile, StepPart::kRouter);
  const V4LayerWeights& w = weights(layer);
  MatrixView<float> logits = compute.arena.matrix(x.rows, config_.n_routed_experts);
  linear(compute, w.gate, BlockQuantizer::kNone, x, logits, Arithmetic::kF32);
  if (layer < config_.num_hash_layers)
    return route_by_table(compute, router_, logits, w.token_experts.data(), flow.tokens);
  return route(compute, router_, logits, w.gate_bias.data());
}

}  // namespace

std::unique_ptr<Network> load_deepseek_v4(const Checkpoint& checkpoint, const nlohmann::json& config,
                                          const NumericSettings& settings) {
  V4Config parsed = parse_v4_config(config, (checkpoint.folder() / "config.json").string());
  WeightSet set(checkpoint);
  V4Weights weights = load_v4_weights(parsed, set);
  std::vector<WeightSet::Unused> unused = set.finish();
  V4Plan plan = plan_v4(parsed, settings.rows);
  return std::make_unique<DeepseekV4>(std::move(parsed), std::move(weights), std::move(plan),
                                      std::move(unused));
}

}  // namespace seekline
