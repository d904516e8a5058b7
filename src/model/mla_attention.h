// Attention over main rows of latents, in either order; what is read is counted in the ledgers.
#pragma once

#include "attention/batch.h"
#include "attention/indexer.h"
#include "attention/latent_heads.h"
#include "kernels/compute.h"
#include "model/taps.h"

namespace seekline {

/// The main rows of a layer and which of them its tokens attend to.
struct LatentRows {
  int layer = 0;
  const Store* store = nullptr;
  const Selection* selection = nullptr;  ///< null: every row up to the token's own
  float scale = 1;                       ///< of the scores
  Taps* taps = nullptr;                  ///< absorbed attention over selected rows is shown to these
};

/// Queries of the latent, [tokens, heads * (latent + rope)] -> out [tokens, heads * latent], averages of the
/// latent. All heads share one key, whose first channels are the value.
void attend_latents(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                    const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out);

// The orders: q [tokens, heads * (nope + rope)] -> out [tokens, heads * value].

/// attend_latents with absorb_queries before and unfold_values behind it, for a bounded number of tokens at
/// once.
void attend_absorbed(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out);

/// Over keys and values rebuilt for every head.
void attend_expanded(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                     const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out);

/// Every run in the order that is cheaper for its length (latent_cost.h).
void attend_by_cost(Compute& compute, const LatentHeads& heads, const TokenBatch& batch,
                    const LatentRows& rows, MatrixView<const float> q, MatrixView<float> out);

}  // namespace seekline
