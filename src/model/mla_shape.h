// What the config of V2, V3 and V3.2 says about the parts of a layer.
#pragma once

#include "attention/latent_heads.h"
#include "attention/rope.h"
#include "checkpoint/deepseek_mla.h"
#include "formats/quantizers.h"
#include "model/router.h"

namespace seekline {

LatentHeads mla_heads(const MlaConfig& config, const WeightView& kv_b);

/// Of attention scores: (nope + rope)^-0.5, times mscale^2 where YaRN's mscale_all_dim is given.
float mla_score_scale(const MlaConfig& config);

/// cos and sin carry m(mscale) / m(mscale_all_dim), which is 1 as released.
Rope mla_rope(const MlaConfig& config);

RouterShape mla_router(const MlaConfig& config);

/// Of the inputs of e4m3 linears; none in bf16 checkpoints.
BlockQuantizer mla_quantizer(const MlaConfig& config);

/// Rows that one token of a long context reads: half the context, or the selection.
std::int64_t mla_typical_rows(const MlaConfig& config);

}  // namespace seekline
