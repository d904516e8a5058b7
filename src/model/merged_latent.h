// kv_b_proj merged into its neighbours: the order "pre-merge" of latent attention.
#pragma once

#include <cstdint>

#include "attention/latent_heads.h"
#include "core/buffer.h"
#include "formats/weight_view.h"
#include "seekline/settings.h"

namespace seekline {

/// Owns the merged weights of one layer: bf16 for fast arithmetic, f32 otherwise.
struct MergedLatent {
  Buffer<std::uint8_t> query_memory, output_memory;
  WeightView
      query;  ///< [heads * (latent + rope), query inputs]: W^UK^T * W^UQ of each head, then its rotary rows
  WeightView output;  ///< [hidden, heads * latent]: W^O * W^UV of each head
};

/// `q` [heads * (nope + rope), inputs], `o` [hidden, heads * value]. Products are f32; exact ones (f64 sums)
/// for arithmetic f32.
MergedLatent merge_latent(const LatentHeads& heads, const WeightView& q, const WeightView& o,
                          Arithmetic arithmetic);

/// Bytes of the merged weights of one layer, without making them.
std::int64_t merged_bytes(const LatentHeads& heads, const WeightView& q, const WeightView& o,
                          Arithmetic arithmetic);

}  // namespace seekline
