// Tensors that V4 and V4.1 name alike: attention on one shared KV head, mHC, and the experts of a block.
// `Config` and `Layer` are a family's own; `p` is the block's prefix ("layers.3." or "mtp.0.").
#pragma once

#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "checkpoint/shared_weights.h"
#include "checkpoint/tensor_visitor.h"

namespace seekline {

template <typename Config, typename Layer>
void visit_latent_attention(TensorVisitor& v, const Config& c, Layer& w, const std::string& p) {
  const std::int64_t hidden = c.hidden_size, rows = c.num_attention_heads * c.head_dim;
  v.linear(w.wq_a, p + "attn.wq_a.weight", c.q_lora_rank, hidden);
  v.norm(w.q_norm, p + "attn.q_norm.weight", c.q_lora_rank);
  v.linear(w.wq_b, p + "attn.wq_b.weight", rows, c.q_lora_rank);
  v.linear(w.wkv, p + "attn.wkv.weight", c.head_dim, hidden);
  v.norm(w.kv_norm, p + "attn.kv_norm.weight", c.head_dim);
  v.linear(w.wo_a, p + "attn.wo_a.weight", c.o_groups * c.o_lora_rank, rows / c.o_groups);
  v.linear(w.wo_b, p + "attn.wo_b.weight", hidden, c.o_groups * c.o_lora_rank);
  v.vector(w.attn_sink, p + "attn.attn_sink", DType::kF32, {c.num_attention_heads}, TensorRole::kSink);
  v.norm(w.attn_norm, p + "attn_norm.weight", hidden);
  v.norm(w.ffn_norm, p + "ffn_norm.weight", hidden);
}

template <typename Config, typename Layer>
void visit_hyper_connections(TensorVisitor& v, const Config& c, Layer& w, const std::string& p) {
  const std::int64_t mixes = (2 + c.hc_mult) * c.hc_mult;
  const auto site = [&](HyperConnectionWeights& hc, const std::string& name) {
    v.plain(hc.fn, name + "_fn", DType::kF32, mixes, c.hc_mult * c.hidden_size);
    v.vector(hc.base, name + "_base", DType::kF32, {mixes}, TensorRole::kBias);
    v.vector(hc.scale, name + "_scale", DType::kF32, {3}, TensorRole::kNorm);
  };
  site(w.hc_attn, p + "hc_attn");
  site(w.hc_ffn, p + "hc_ffn");
}

/// Router matrix, routed experts and the shared one; what selects experts beside the matrix is the family's.
template <typename Config, typename Layer>
void visit_experts(TensorVisitor& v, const Config& c, Layer& w, const std::string& p, std::int64_t experts) {
  const std::int64_t hidden = c.hidden_size, width = c.moe_intermediate_size;
  v.plain(w.gate, p + "ffn.gate.weight", DType::kBF16, experts, hidden);
  w.experts.resize(static_cast<std::size_t>(experts));
  for (std::size_t e = 0; e < w.experts.size(); ++e) {
    const std::string name = fmt::format("{}ffn.experts.{}.", p, e);
    v.expert(w.experts[e].w1, name + "w1.weight", width, hidden);
    v.expert(w.experts[e].w2, name + "w2.weight", hidden, width);
    v.expert(w.experts[e].w3, name + "w3.weight", width, hidden);
  }
  w.shared_experts.resize(static_cast<std::size_t>(c.n_shared_experts));
  for (ExpertWeights& shared : w.shared_experts) {
    v.linear(shared.w1, p + "ffn.shared_experts.w1.weight", width, hidden);
    v.linear(shared.w2, p + "ffn.shared_experts.w2.weight", hidden, width);
    v.linear(shared.w3, p + "ffn.shared_experts.w3.weight", width, hidden);
  }
}

}  // namespace seekline
