#include "model/weight_parts.h"

#include <initializer_list>

#include "model/part_sum.h"

namespace seekline {

std::vector<WeightPart> v41_weight_parts(const V41Config& c, const V41Weights& weights) {
  PartSum embedding("embedding"), attention("attention"), index("indexer and compressor"), router("router"),
      routed("routed experts"), shared("shared experts"), engram("engram"), streams("residual mixing"),
      head("head");
  embedding.matrix(weights.embed, 1.0 / static_cast<double>(c.vocab_size));
  head.matrix(weights.head);
  head.vector(weights.norm, 2);
  const double active = static_cast<double>(c.num_experts_per_tok) / static_cast<double>(c.n_routed_experts);
  const double ngram_rows = static_cast<double>((c.engram_max_ngram_size - 1) * c.engram_n_heads);
  for (const V41LayerWeights& w : weights.layers) {
    for (const WeightView* m : {&w.wq_a, &w.wq_b, &w.wkv, &w.wo_a, &w.wo_b}) attention.matrix(*m);
    for (const auto* v : {&w.attn_norm, &w.q_norm, &w.kv_norm}) attention.vector(*v, 2);
    attention.vector(w.attn_sink, 4);
    for (const WeightView* m :
         {&w.compressor_wkv, &w.compressor_wgate, &w.indexer_wq_b, &w.indexer_weights_proj, &w.indexer_wk})
      index.matrix(*m);
    index.vector(w.compressor_norm, 2);
    index.vector(w.indexer_k_norm, 2);
    router.matrix(w.gate);
    router.vector(w.gate_bias, 4);
    router.vector(w.ffn_norm, 2);
    for (const ExpertWeights& e : w.experts)
      for (const WeightView* m : {&e.w1, &e.w2, &e.w3}) routed.matrix(*m, active);
    for (const ExpertWeights& e : w.shared_experts)
      for (const WeightView* m : {&e.w1, &e.w2, &e.w3}) shared.matrix(*m);
    streams.stream(w.hc_attn);
    streams.stream(w.hc_ffn);
    if (w.engram.table.empty()) continue;
    engram.matrix(w.engram.table, ngram_rows / static_cast<double>(w.engram.table.rows));
    engram.matrix(w.engram.wkv);
    engram.vector(w.engram.q_weight, 2);
    engram.vector(w.engram.k_weight, 2);
  }
  return {embedding.done(), attention.done(), index.done(),   router.done(), routed.done(),
          shared.done(),    engram.done(),    streams.done(), head.done()};
}

std::vector<WeightPart> v4_weight_parts(const V4Config& c, const V4Weights& weights) {
  PartSum embedding("embedding"), attention("attention"), index("indexer and compressor"), router("router"),
      routed("routed experts"), shared("shared experts"), streams("residual mixing"), head("head");
  embedding.matrix(weights.embed, 1.0 / static_cast<double>(c.vocab_size));
  head.matrix(weights.head);
  head.vector(weights.norm, 2);
  streams.stream(weights.hc_head);
  const double active = static_cast<double>(c.num_experts_per_tok) / static_cast<double>(c.n_routed_experts);
  for (const V4LayerWeights& w : weights.layers) {
    for (const WeightView* m : {&w.wq_a, &w.wq_b, &w.wkv, &w.wo_a, &w.wo_b}) attention.matrix(*m);
    for (const auto* v : {&w.attn_norm, &w.q_norm, &w.kv_norm}) attention.vector(*v, 2);
    attention.vector(w.attn_sink, 4);
    for (const CompressorWeights* compressor : {&w.compressor, &w.indexer_compressor}) {
      index.matrix(compressor->wkv);
      index.matrix(compressor->wgate);
      index.vector(compressor->ape, 4);
      index.vector(compressor->norm, 2);
    }
    index.matrix(w.indexer_wq_b);
    index.matrix(w.indexer_weights_proj);
    router.matrix(w.gate);
    router.vector(w.gate_bias, 4);
    router.table(w.token_experts, 8, 1.0 / static_cast<double>(c.vocab_size));
    router.vector(w.ffn_norm, 2);
    for (const ExpertWeights& e : w.experts)
      for (const WeightView* m : {&e.w1, &e.w2, &e.w3}) routed.matrix(*m, active);
    for (const ExpertWeights& e : w.shared_experts)
      for (const WeightView* m : {&e.w1, &e.w2, &e.w3}) shared.matrix(*m);
    streams.stream(w.hc_attn);
    streams.stream(w.hc_ffn);
  }
  return {embedding.done(), attention.done(), index.done(),   router.done(),
          routed.done(),    shared.done(),    streams.done(), head.done()};
}

namespace {

// Embedding, attention, feed-forward, head of models that share llama's blocks.
std::vector<WeightPart> dense_parts(const LlamaConfig& c, const WeightView& embed,
                                    const WeightView& head_weight, const std::vector<float>& norm,
                                    const std::vector<LlamaLayerWeights>& layers,
                                    const std::vector<const WeightView*>& more_attention,
                                    const std::vector<float>& more_norm) {
  PartSum embedding("embedding"), attention("attention"), ffn("feed-forward"), head("head");
  // A tied head reads the whole embedding; it is then counted once in bytes, as the head.
  if (!c.tie_word_embeddings) embedding.matrix(embed, 1.0 / static_cast<double>(c.vocab_size));
  head.matrix(head_weight);
  head.vector(norm, 2);
  for (const LlamaLayerWeights& w : layers) {
    attention.vector(w.input_layernorm, 2);
    ffn.vector(w.post_attention_layernorm, 2);
    for (const WeightView* m : {&w.q_proj, &w.k_proj, &w.v_proj, &w.o_proj}) attention.matrix(*m);
    for (const WeightView* m : {&w.gate_proj, &w.up_proj, &w.down_proj}) ffn.matrix(*m);
  }
  for (const WeightView* m : more_attention) attention.matrix(*m);
  attention.vector(more_norm, 2);
  return {embedding.done(), attention.done(), ffn.done(), head.done()};
}

}  // namespace

std::vector<WeightPart> llama_weight_parts(const LlamaConfig& c, const LlamaWeights& w) {
  return dense_parts(c, w.embed, w.head, w.norm, w.layers, {}, {});
}

std::vector<WeightPart> yoco_weight_parts(const YocoConfig& c, const YocoWeights& w) {
  return dense_parts(c.dense, w.embed, w.head, w.norm, w.layers, {&w.memory_k, &w.memory_v}, w.memory_norm);
}

}  // namespace seekline
