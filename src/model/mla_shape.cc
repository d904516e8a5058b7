#include "model/mla_shape.h"

#include <algorithm>
#include <cmath>

namespace seekline {
namespace {

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

LatentHeads mla_heads(const MlaConfig& c, const WeightView& kv_b) {
  LatentHeads heads;
  heads.kv_b = kv_b;
  heads.heads = static_cast<int>(c.num_attention_heads);
  heads.latent = static_cast<int>(c.kv_lora_rank);
  heads.nope = static_cast<int>(c.qk_nope_head_dim);
  heads.rope = static_cast<int>(c.qk_rope_head_dim);
  heads.value = static_cast<int>(c.v_head_dim);
  return heads;
}

float mla_score_scale(const MlaConfig& c) {
  double scale = 1.0 / std::sqrt(static_cast<double>(c.qk_nope_head_dim + c.qk_rope_head_dim));
  if (c.rope_scaling.kind == RopeScaling::Kind::kYarn && c.rope_scaling.mscale_all_dim != 0) {
    const double mscale = yarn_mscale(c.rope_scaling.factor, c.rope_scaling.mscale_all_dim);
    scale *= mscale * mscale;
  }
  return static_cast<float>(scale);
}

Rope mla_rope(const MlaConfig& c) {
  RopeScaling s = c.rope_scaling;
  // An absent mscale is 1, as in the reference.
  if (s.kind == RopeScaling::Kind::kYarn && s.original_context != 0)
    s.attention_factor =
        yarn_mscale(s.factor, s.mscale == 0 ? 1.0 : s.mscale) / yarn_mscale(s.factor, s.mscale_all_dim);
  return Rope(static_cast<int>(c.qk_rope_head_dim), c.rope_theta, s, c.max_position_embeddings);
}

RouterShape mla_router(const MlaConfig& c) {
  RouterShape router;
  router.score = c.generation == MlaConfig::Generation::kV2 ? RouterScore::kSoftmax : RouterScore::kSigmoid;
  router.experts = static_cast<int>(c.n_routed_experts);
  router.top = static_cast<int>(c.num_experts_per_tok);
  router.normalise = c.norm_topk_prob;
  router.sum_eps = 1e-20f;
  router.scaling = static_cast<float>(c.routed_scaling_factor);
  if (c.routing == MlaConfig::Routing::kGreedy) return router;
  router.groups = static_cast<int>(c.n_group);
  router.group_top = static_cast<int>(c.topk_group);
  router.group_rule =
      c.routing == MlaConfig::Routing::kGroupTopTwo ? GroupRule::kTopTwo : GroupRule::kMaximum;
  return router;
}

BlockQuantizer mla_quantizer(const MlaConfig& c) {
  if (!c.fp8) return BlockQuantizer::kNone;
  return c.pow2_scales ? BlockQuantizer::kFp8Block128 : BlockQuantizer::kFp8Block128F32;
}

std::int64_t mla_typical_rows(const MlaConfig& c) {
  return c.has_indexer() ? c.index_topk : std::max<std::int64_t>(1, c.max_position_embeddings / 2);
}

}  // namespace seekline
