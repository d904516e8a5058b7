// Attention over main rows of latents, in either order; what is read is counted in the ledgers.
#pragma once

#include "attention/batch.h"
#include "attention/indexer.h"
#include "attention/latent_heads.h"
#include "kernels/compute.h"

namespace seekline {

/// The main rows of a layer and which of them its tokens attend to.
struct LatentRows {
  int layer = 0;
  const Store* store = nullptr;
  const Selection* selection = nullptr;  ///< null: every row up to the token's own
  float scale = 1;                       ///< of the scores
};

/// Queries of the latent, [tokens, heads * (latent + rope)] -> averages of the latent, [tokens, heads *
/// latent], in the arena. All heads share one key, whose first channels are the value.
MatrixView<float> attend_absorbed(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                                  const LatentRows& rows, MatrixView<const float> q);

/// q [tokens, heads * (nope + rope)] -> out [tokens, heads * value], over keys and values rebuilt for every
/// head.
void attend_expanded(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out);

/// q [tokens, heads * (nope + rope)] -> [tokens, heads * value] in the arena: every run in the order that is
/// cheaper for its length (latent_cost.h), absorbed with absorb_queries and unfold_values around it.
MatrixView<float> attend_by_cost(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                                 const LatentRows& rows, MatrixView<const float> q);

}  // namespace seekline
