// Latent attention in the order "expand": keys and values of every head are rebuilt from the cached latents,
// for a block of queries that read the same rows, and the heads attend to them as in ordinary attention.
#pragma once

#include <cstdint>
#include <span>

#include "attention/latent_heads.h"
#include "kernels/compute.h"

namespace seekline {

/// Tokens [first_token, first_token + tokens) of the flat batch, which read the same rows. Token i of them
/// sees the first min(count, first_visible + i) rows.
struct ExpandBlock {
  std::int64_t first_token = 0, tokens = 0;
  const RowRef* rows = nullptr;  ///< main rows: the latent, then the rotary key
  std::int64_t count = 0;
  std::int64_t first_visible = 0;
};

/// q [tokens, heads * (nope + rope)] -> out [tokens, heads * value].
/// Order of the sums: as dense_attend's: rows in list order, in tiles of kTileRows; every kSplitRows rows
/// start a softmax of their own, merged in order.
void expand_attend(Compute& compute, const LatentHeads& heads, float scale, const RowFormat& format,
                   std::span<const ExpandBlock> blocks, MatrixView<const float> q, MatrixView<float> out);

}  // namespace seekline
