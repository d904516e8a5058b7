#include "model/deepseek_v41.h"

#include <optional>

#include <fmt/format.h>

#include "attention/compressor.h"
#include "kernels/linear.h"
#include "model/deepseek_v41_plan.h"
#include "model/embedding.h"
#include "model/engram.h"
#include "model/hyper_connection.h"
#include "model/latent_attention.h"
#include "model/moe.h"
#include "model/weight_parts.h"
#include "seekline/error.h"

namespace seekline {
namespace {

// What flows from layer to layer, and the lists that index sources publish.
struct Flow {
  TokenBatch batch;                            // the tokens that the layer at work runs on
  TokenBatch decoder_batch;                    // those of the decoder part
  std::span<const std::int64_t> decoder_rows;  // which rows of the whole batch these are
  MatrixView<float> h;                         // [tokens, hc * hidden] residual streams
  MatrixView<float> pre;                       // [tokens, hc] gates of the previous site
  // By layer, where it has an Engram: table rows of each token [tokens, columns].
  std::span<MatrixView<std::int64_t>> engram_rows;
  RopeAngles rope, compressed_rope;
  Selection selection, pool;
  Taps* taps = nullptr;
};

class DeepseekV41 final : public Network {
 public:
  DeepseekV41(V41Config config, V41Weights weights, V41Plan plan, std::vector<WeightSet::Unused> unused,
              CompressedVocabulary vocabulary, EngramLayout layout)
      : config_(std::move(config)),
        weights_(std::move(weights)),
        stores_(std::move(plan.layers)),
        vocabulary_(std::move(vocabulary)),
        layout_(std::move(layout)) {
    plan_ = std::move(plan.plan);
    tables_.push_back(weights_.embed);
    for (const V41LayerWeights& layer : weights_.layers)
      if (!layer.engram.table.empty()) tables_.push_back(layer.engram.table);
    unused_ = std::move(unused);
    set_shapes();
  }

  std::string family() const override { return "deepseek_v41"; }
  std::string geometry() const override {
    const V41Config& c = config_;
    return fmt::format(
        "{} layers, hidden {}, {} heads x {}, window {}, {} experts top {} + {} shared x {}, vocabulary {}",
        c.num_hidden_layers, c.hidden_size, c.num_attention_heads, c.head_dim, c.sliding_window,
        c.n_routed_experts, c.num_experts_per_tok, c.n_shared_experts, c.moe_intermediate_size, c.vocab_size);
  }
  std::int64_t vocab_size() const override { return config_.vocab_size; }
  std::int64_t max_context() const override { return config_.max_position_embeddings; }
  std::vector<std::int64_t> eos_token_ids() const override { return config_.eos_token_ids; }
  std::int64_t bos_token_id() const override { return config_.bos_token_id; }
  std::vector<WeightPart> parts() const override { return v41_weight_parts(config_, weights_); }

  void forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
               Taps* taps) const override;

 private:
  void set_shapes();
  Flow start(Compute& compute, std::span<const Run> runs, Taps* taps) const;
  void run_layer(Compute& compute, int layer, Flow& flow) const;
  void find_engram_rows(Compute& compute, std::span<const Run> runs, Flow& flow) const;
  void apply_engram(Compute& compute, int layer, Flow& flow) const;
  void store_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const;
  void attention(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                 MatrixView<float> y) const;
  void select(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
              MatrixView<const float> qr) const;
  void feed_forward(Compute& compute, int layer, Flow& flow) const;
  Routing route_tokens(Compute& compute, const V41LayerWeights& w, MatrixView<const float> x) const;
  void enter_decoder(Flow& flow, SiteMix& mix, MatrixView<float>& x) const;
  void tap(const Flow& flow, const char* what, int layer, MatrixView<const float> values) const {
    if (flow.taps) flow.taps->floats(what, layer, flow.batch, values);
  }

  BlockQuantizer quantizer(const Compute& compute) const {
    return compute.activation(BlockQuantizer::kFp8Block32);
  }
  const Store& store(StoreId id) const { return plan_.stores[static_cast<std::size_t>(id)]; }
  const V41LayerWeights& weights(int layer) const { return weights_.layers[static_cast<std::size_t>(layer)]; }
  std::int64_t ratio(int layer) const { return config_.compress_ratios[static_cast<std::size_t>(layer)]; }
  const RopeAngles& rope(const Flow& flow, int layer) const {
    return ratio(layer) > 0 ? flow.compressed_rope : flow.rope;
  }

  const V41Config config_;
  const V41Weights weights_;
  const std::vector<V41LayerStores> stores_;
  const CompressedVocabulary vocabulary_;
  const EngramLayout layout_;
  HyperConnectionShape streams_;
  LatentAttentionShape attention_;
  RouterShape router_;
  Rope rope_, compressed_rope_;
  std::vector<std::optional<Engram>> engrams_;
  std::vector<CompressorWeights> compressors_;
};

void DeepseekV41::set_shapes() {
  const V41Config& c = config_;
  streams_ = {static_cast<int>(c.hc_mult), c.hidden_size, static_cast<int>(c.hc_sinkhorn_iters),
              static_cast<float>(c.hc_eps), static_cast<float>(c.rms_norm_eps)};
  attention_.heads = static_cast<int>(c.num_attention_heads);
  attention_.head_dim = static_cast<int>(c.head_dim);
  attention_.rope_dims = static_cast<int>(c.qk_rope_head_dim);
  attention_.o_groups = static_cast<int>(c.o_groups);
  attention_.window = static_cast<int>(c.sliding_window);
  attention_.norm_eps = static_cast<float>(c.rms_norm_eps);
  router_ = {RouterScore::kSqrtSoftplus,
             static_cast<int>(c.n_routed_experts),
             static_cast<int>(c.num_experts_per_tok),
             c.norm_topk_prob,
             1e-20f,
             static_cast<float>(c.routed_scaling_factor),
             static_cast<float>(c.gate_temp)};
  rope_ = Rope(attention_.rope_dims, c.rope_theta, {}, c.max_position_embeddings);
  compressed_rope_ =
      Rope(attention_.rope_dims, c.compress_rope_theta, c.rope_scaling, c.max_position_embeddings);
  engrams_.resize(weights_.layers.size());
  for (std::size_t i = 0; i < layout_.layers.size(); ++i) {
    const auto layer = static_cast<std::size_t>(c.engram_layer_ids[i]);
    engrams_[layer].emplace(weights_.layers[layer].engram, layout_, layout_.layers[i], streams_);
  }
  for (const V41LayerWeights& w : weights_.layers)
    compressors_.push_back({w.compressor_wkv, w.compressor_wgate, w.compressor_norm, {}});
}

void DeepseekV41::forward(Compute& compute, std::span<const Run> runs, MatrixView<float> logits,
                          Taps* taps) const {
  Arena::Scope scope(compute.arena);
  Flow flow = start(compute, runs, taps);
  const int layers = static_cast<int>(config_.num_hidden_layers);
  for (int layer = 0; layer < layers && flow.batch.count > 0; ++layer) run_layer(compute, layer, flow);
  tap(flow, "stream", layers, flow.h);
  tap(flow, "pre", layers, flow.pre);
  const PartScope part(compute.profile, StepPart::kHead);
  const std::span<const std::int64_t> rows = wanted_rows(compute.arena, runs);
  if (rows.empty()) return;
  const MatrixView<float> h = take_rows(compute, flow.h, rows);
  const MatrixView<float> pre = take_rows(compute, flow.pre, rows);
  MatrixView<float> x = compute.arena.matrix(h.rows, config_.hidden_size);
  collapse_and_norm(compute, streams_, h, pre, weights_.norm, x);
  linear(compute, weights_.head, BlockQuantizer::kNone, x, logits, Arithmetic::kF32);
}

Flow DeepseekV41::start(Compute& compute, std::span<const Run> runs, Taps* taps) const {
  Flow flow;
  flow.taps = taps;
  flow.batch = flatten(compute.arena, runs);
  flow.decoder_batch = flatten_decoder(compute.arena, runs);
  flow.decoder_rows = decoder_rows(compute.arena, runs);
  const std::int64_t tokens = flow.batch.count;
  flow.h = compute.arena.matrix(tokens, streams_.streams * config_.hidden_size);
  flow.pre = compute.arena.matrix(tokens, streams_.streams);
  embed_streams(compute, weights_.embed, runs, streams_.streams, flow.h);
  for (std::int64_t r = 0; r < tokens; ++r)
    for (int k = 0; k < streams_.streams; ++k) flow.pre.row(r)[k] = k == 0 ? 1.0f : 0.0f;
  find_engram_rows(compute, runs, flow);
  flow.rope = rope_angles(compute, rope_, flow.batch.position, tokens);
  flow.compressed_rope = rope_angles(compute, compressed_rope_, flow.batch.position, tokens);
  flow.selection = new_selection(compute.arena, tokens, config_.index_topk);
  if (plan_.pool_blocks > 0) flow.pool = new_selection(compute.arena, tokens, plan_.pool_blocks);
  return flow;
}

void DeepseekV41::run_layer(Compute& compute, int layer, Flow& flow) const {
  Arena::Scope scope(compute.arena);
  const V41LayerWeights& w = weights(layer);
  tap(flow, "stream", layer, flow.h);
  tap(flow, "pre", layer, flow.pre);
  apply_engram(compute, layer, flow);
  SiteMix mix = site_mix(compute, streams_, w.hc_attn, flow.h);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  collapse_and_norm(compute, streams_, flow.h, flow.pre, w.attn_norm, x);
  if (config_.is_kv_source(layer)) store_latents(compute, layer, flow, x);
  if (layer == plan_.first_decoder_layer()) enter_decoder(flow, mix, x);
  if (flow.batch.count == 0) return;  // no token of these runs goes through the decoder part
  MatrixView<float> y = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  attention(compute, layer, flow, x, y);
  mix_streams(compute, streams_, mix, y, flow.h);
  copy_rows(mix.pre, flow.pre);
  feed_forward(compute, layer, flow);
}

// For all layers at once, so that rows on the disk are on their way while the layers before are computed.
void DeepseekV41::find_engram_rows(Compute& compute, std::span<const Run> runs, Flow& flow) const {
  if (layout_.layers.empty()) return;
  const PartScope part(compute.profile, StepPart::kEngram);
  Arena& arena = compute.arena;
  const std::int64_t tokens = flow.batch.count, columns = layout_.columns();
  auto* rows = arena.array<MatrixView<std::int64_t>>(static_cast<std::int64_t>(engrams_.size()));
  for (std::size_t layer = 0; layer < engrams_.size(); ++layer)
    new (rows + layer) MatrixView<std::int64_t>(
        engrams_[layer] ? arena.array<std::int64_t>(tokens * columns) : nullptr, tokens, columns);
  flow.engram_rows = {rows, engrams_.size()};
  Arena::Scope scope(arena);
  const std::int32_t* classes =
      ngram_classes(arena, runs, vocabulary_, layout_.max_ngram, config_.engram_pad_token_id);
  for (std::size_t layer = 0; layer < engrams_.size(); ++layer)
    if (engrams_[layer]) engrams_[layer]->find_rows(compute, classes, rows[layer]);
}

void DeepseekV41::apply_engram(Compute& compute, int layer, Flow& flow) const {
  const auto& engram = engrams_[static_cast<std::size_t>(layer)];
  if (!engram) return;
  const MatrixView<std::int64_t> rows = flow.engram_rows[static_cast<std::size_t>(layer)];
  engram->apply(compute, rows, quantizer(compute), flow.h);
  if (flow.taps) flow.taps->integers("engram_ids", layer, flow.batch, rows);
  tap(flow, "engram_out", layer, flow.h);
}

void DeepseekV41::store_latents(Compute& compute, int layer, Flow& flow, MatrixView<const float> x) const {
  const PartScope part(compute.profile, StepPart::kIndexer);
  Arena::Scope scope(compute.arena);
  const V41LayerWeights& w = weights(layer);
  const V41LayerStores& own = stores_[static_cast<std::size_t>(layer)];
  const CompressorShape shape{static_cast<int>(ratio(layer)), attention_.head_dim, false,
                              attention_.norm_eps};
  const Latents latents = compress(compute, flow.batch, compressors_[static_cast<std::size_t>(layer)], shape,
                                   own.tail < 0 ? nullptr : &store(own.tail), x);
  const std::int64_t count = latents.values.rows;
  if (count == 0) return;
  const RopeAngles angles = group_angles(compute, compressed_rope_, latents.groups);
  MatrixView<float> keys = compute.arena.matrix(count, config_.index_head_dim);
  linear(compute, w.indexer_wk, BlockQuantizer::kNone, latents.values, keys, Arithmetic::kF32);
  for_rows(compute, count, [&](std::int64_t g) {
    compute.kernels.rms_norm(keys.row(g), w.indexer_k_norm.data(), keys.cols, attention_.norm_eps,
                             keys.row(g));
  });
  rotate_tails(compute, keys, 1, static_cast<int>(keys.cols), angles);
  rotate_tails(compute, latents.values, 1, attention_.head_dim, angles);
  append_rows(compute, flow.batch, latents.groups, store(own.main), latents.values);
  append_rows(compute, flow.batch, latents.groups, store(own.index_key), keys);
}

// From here on only the decoder's tokens: their rows move up, in place.
void DeepseekV41::enter_decoder(Flow& flow, SiteMix& mix, MatrixView<float>& x) const {
  const std::span<const std::int64_t> rows = flow.decoder_rows;
  flow.batch = flow.decoder_batch;
  if (static_cast<std::int64_t>(rows.size()) == flow.h.rows) return;
  keep_rows(flow.h, rows);
  keep_rows(flow.pre, rows);
  keep_rows(mix.pre, rows);
  keep_rows(mix.post, rows);
  keep_rows(mix.comb, rows);
  keep_rows(x, rows);
  keep_rows(flow.rope, rows);
  keep_rows(flow.compressed_rope, rows);
  for (MatrixView<std::int64_t>& of_layer : flow.engram_rows)
    if (of_layer.data) keep_rows(of_layer, rows);
}

void DeepseekV41::attention(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                            MatrixView<float> y) const {
  const V41LayerWeights& w = weights(layer);
  LatentAttentionShape shape = attention_;
  shape.quantizer = quantizer(compute);
  const PartScope part(compute.profile, StepPart::kAttention);
  Arena::Scope scope(compute.arena);
  const LatentAttentionWeights latent{w.wq_a, w.wq_b,   w.wkv,     w.wo_a,
                                      w.wo_b, w.q_norm, w.kv_norm, w.attn_sink.data()};
  const StepRing window(compute, flow.batch, store(stores_[static_cast<std::size_t>(layer)].window));
  const RopeAngles& angles = rope(flow, layer);
  const MatrixView<float> qr = low_queries_and_window_rows(compute, shape, latent, angles, x, window);
  if (config_.is_index_source(layer)) select(compute, layer, flow, x, qr);
  SelectedRows selected;
  if (const auto& main = plan_.layers[static_cast<std::size_t>(layer)].main) {
    selected.store = &store(*main);
    selected.selection = &flow.selection;
  }
  latent_attention(compute, shape, latent, flow.batch, layer, selected, window, angles, qr, y, flow.taps);
  window.commit();
}

void DeepseekV41::select(Compute& compute, int layer, Flow& flow, MatrixView<const float> x,
                         MatrixView<const float> qr) const {
  const V41LayerWeights& w = weights(layer);
  const LayerPlan& layer_plan = plan_.layers[static_cast<std::size_t>(layer)];
  Arena::Scope scope(compute.arena);
  const IndexQueries index =
      index_queries(compute, quantizer(compute), w.indexer_wq_b, w.indexer_weights_proj,
                    static_cast<int>(config_.index_head_dim), flow.compressed_rope, qr, x);
  IndexRequest request;
  request.layer = layer;
  request.keys = &store(layer_plan.select.index);
  request.queries = index.queries;
  request.weights = index.weights;
  request.heads = static_cast<int>(config_.index_n_heads);
  request.within = layer_plan.select.how == Select::How::kPooledTopK ? &flow.pool : nullptr;
  request.pool_block_rows = plan_.pool_block_rows;
  request.rows = &flow.selection;
  request.pool = layer_plan.makes_pool ? &flow.pool : nullptr;
  select_rows(compute, flow.batch, request);
  if (flow.taps) {
    flow.taps->lists("topk", layer, flow.batch, flow.selection);
    if (layer_plan.makes_pool) flow.taps->lists("pool", layer, flow.batch, flow.pool);
  }
}

void DeepseekV41::feed_forward(Compute& compute, int layer, Flow& flow) const {
  const V41LayerWeights& w = weights(layer);
  const SiteMix mix = site_mix(compute, streams_, w.hc_ffn, flow.h);
  MatrixView<float> x = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  MatrixView<float> y = compute.arena.matrix(flow.batch.count, config_.hidden_size);
  collapse_and_norm(compute, streams_, flow.h, flow.pre, w.ffn_norm, x);
  const Routing routing = route_tokens(compute, w, x);
  if (flow.taps) flow.taps->experts(layer, flow.batch, routing);
  mixture(compute, {quantizer(compute), static_cast<float>(config_.swiglu_limit)}, w.experts,
          w.shared_experts, routing, x, y);
  mix_streams(compute, streams_, mix, y, flow.h);
  copy_rows(mix.pre, flow.pre);
}

Routing DeepseekV41::route_tokens(Compute& compute, const V41LayerWeights& w,
                                  MatrixView<const float> x) const {
  const PartScope part(compute.profile, StepPart::kRouter);
  MatrixView<float> logits = compute.arena.matrix(x.rows, config_.n_routed_experts);
  linear(compute, w.gate, BlockQuantizer::kNone, x, logits, Arithmetic::kF32);
  return route(compute, router_, logits, w.gate_bias.data());
}

EngramLayout layout_of(const V41Config& c, std::vector<std::string>& problems) {
  const EngramLayout layout =
      engram_layout(c.engram_layer_ids, static_cast<int>(c.engram_max_ngram_size),
                    static_cast<int>(c.engram_n_heads), c.engram_vocab_size, c.engram_compressed_vocab_size);
  for (std::size_t i = 0; i < layout.layers.size(); ++i)
    if (layout.layers[i].rows != c.engram_num_embeddings[i])
      problems.push_back(
          fmt::format("the primes of Engram layer {} add up to {} rows, but engram_num_embeddings says {}",
                      c.engram_layer_ids[i], layout.layers[i].rows, c.engram_num_embeddings[i]));
  return layout;
}

CompressedVocabulary vocabulary_of(const V41Config& c, const Tokenizer* tokenizer,
                                   std::vector<std::string>& problems) {
  if (!tokenizer) {
    problems.push_back("the model has Engram layers and cannot run without its tokenizer.json");
    return {};
  }
  CompressedVocabulary vocabulary = compress_vocabulary(*tokenizer);
  if (vocabulary.classes != c.engram_compressed_vocab_size)
    problems.push_back(
        fmt::format("the tokenizer compresses to {} classes, but engram_compressed_vocab_size says {}",
                    vocabulary.classes, c.engram_compressed_vocab_size));
  if (tokenizer->size() < c.vocab_size)
    problems.push_back(
        fmt::format("the tokenizer has {} tokens, but vocab_size is {}", tokenizer->size(), c.vocab_size));
  return vocabulary;
}

}  // namespace

std::unique_ptr<Network> load_deepseek_v41(const Checkpoint& checkpoint, const nlohmann::json& config,
                                           const Tokenizer* tokenizer, const NumericSettings& settings) {
  V41Config parsed = parse_v41_config(config, (checkpoint.folder() / "config.json").string());
  std::vector<std::string> problems;
  EngramLayout layout;
  CompressedVocabulary vocabulary;
  if (!parsed.engram_layer_ids.empty()) {
    layout = layout_of(parsed, problems);
    vocabulary = vocabulary_of(parsed, tokenizer, problems);
  }
  WeightSet set(checkpoint);
  V41Weights weights = load_v41_weights(parsed, set);
  for (std::string& problem : problems) set.problem(std::move(problem));
  std::vector<WeightSet::Unused> unused = set.finish();
  V41Plan plan = plan_v41(parsed, settings.rows);
  return std::make_unique<DeepseekV41>(std::move(parsed), std::move(weights), std::move(plan),
                                       std::move(unused), std::move(vocabulary), std::move(layout));
}

}  // namespace seekline
