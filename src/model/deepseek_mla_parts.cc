#include "model/deepseek_mla.h"
#include "model/part_sum.h"

namespace seekline {

std::vector<WeightPart> mla_weight_parts(const MlaConfig& c, const MlaWeights& weights) {
  PartSum embedding("embedding"), attention("attention"), index("indexer and compressor"),
      ffn("feed-forward"), router("router"), routed("routed experts"), shared("shared experts"), head("head");
  embedding.matrix(weights.embed, 1.0 / static_cast<double>(c.vocab_size));
  head.matrix(weights.head);
  head.vector(weights.norm, 2);
  const double active = static_cast<double>(c.num_experts_per_tok) / static_cast<double>(c.n_routed_experts);
  const auto expert = [](PartSum& part, const ExpertWeights& e, double share) {
    for (const WeightView* m : {&e.w1, &e.w2, &e.w3}) part.matrix(*m, share);
  };
  for (const MlaLayerWeights& w : weights.layers) {
    for (const WeightView* m : {&w.q_proj, &w.q_a_proj, &w.q_b_proj, &w.kv_a_proj, &w.kv_b_proj, &w.o_proj})
      attention.matrix(*m);
    for (const auto* v : {&w.input_layernorm, &w.q_a_layernorm, &w.kv_a_layernorm}) attention.vector(*v, 2);
    for (const WeightView* m : {&w.indexer_wq_b, &w.indexer_wk, &w.indexer_weights_proj}) index.matrix(*m);
    for (const auto* v : {&w.indexer_k_norm, &w.indexer_k_norm_bias}) index.vector(*v, 4);
    expert(ffn, w.mlp, 1);
    ffn.vector(w.post_attention_layernorm, 2);
    router.matrix(w.gate);
    router.vector(w.gate_bias, 4);
    for (const ExpertWeights& e : w.experts) expert(routed, e, active);
    expert(shared, w.shared, 1);
  }
  std::vector<WeightPart> parts;
  for (const PartSum* part : {&embedding, &attention, &index, &ffn, &router, &routed, &shared, &head}) {
    WeightPart sum = PartSum(*part).done();
    if (sum.tensors > 0) parts.push_back(std::move(sum));
  }
  return parts;
}

}  // namespace seekline
