// What the single-KV-head attention of V4 and V4.1 shares: low-rank queries, window rows, gather, grouped
// output.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "attention/batch.h"
#include "attention/compressor.h"
#include "attention/gather_attend.h"
#include "attention/indexer.h"
#include "attention/rope.h"
#include "attention/step_ring.h"
#include "formats/weight_view.h"
#include "kernels/compute.h"
#include "model/taps.h"

namespace seekline {

struct LatentAttentionShape {
  int heads = 0, head_dim = 0, rope_dims = 0;
  int o_groups = 0;
  int window = 0;
  float norm_eps = 0;
  BlockQuantizer quantizer = BlockQuantizer::kNone;  ///< of the inputs of quantized linears
};

/// Rotates the last rope_dims channels of each of `heads` vectors of a row, forward or back.
void rotate_tails(Compute& compute, MatrixView<float> x, int heads, int width, const RopeAngles& angles,
                  bool inverse = false);

/// Weights of the attention of one layer.
struct LatentAttentionWeights {
  WeightView wq_a, wq_b, wkv, wo_a, wo_b;
  const std::vector<float>&q_norm, &kv_norm;
  const float* sinks = nullptr;
  float head_norm_eps = 0;  ///< V4 norms each query head; 0: no such norm
};

/// x [tokens, hidden] -> norm(x * wq_a) [tokens, q_lora_rank] in the caller's arena scope, and every token's
/// window row, norm(x * wkv) rotated, into the ring.
MatrixView<float> low_queries_and_window_rows(Compute& compute, const LatentAttentionShape& shape,
                                              const LatentAttentionWeights& weights, const RopeAngles& angles,
                                              MatrixView<const float> x, const StepRing& ring);

/// What a layer's indexer asks with.
struct IndexQueries {
  MatrixView<float> queries;  ///< [tokens, heads * width], rotated
  MatrixView<float> weights;  ///< [tokens, heads], with the factors width^-0.5 and heads^-0.5
};

/// qr [tokens, q_lora_rank], x [tokens, hidden] -> queries in the caller's arena scope.
IndexQueries index_queries(Compute& compute, BlockQuantizer quantizer, const WeightView& wq_b,
                           const WeightView& weights_proj, int width, const RopeAngles& angles,
                           MatrixView<const float> qr, MatrixView<const float> x);

/// RoPE at the first position of each group, for rows that stand for several tokens; in the caller's arena
/// scope.
RopeAngles group_angles(Compute& compute, const Rope& rope, std::span<const Latents::Group> groups);

/// What a layer attends to besides its window.
struct SelectedRows {
  const Store* store = nullptr;          ///< null: window only
  const Selection* selection = nullptr;  ///< null: every finished row of the store
};

/// y = wo_b * concat_g(wo_a[g] * heads of group g), from queries qr * wq_b attending to selected rows and
/// window. Works on some tokens at a time, so that scratch does not grow with the batch. The input of wo_a is
/// not quantized; that of wo_b is. Counts what it reads in the ledgers; attention over selected rows is shown
/// to `taps`, which may be null.
void latent_attention(Compute& compute, const LatentAttentionShape& shape,
                      const LatentAttentionWeights& weights, const TokenBatch& batch, int layer,
                      const SelectedRows& selected, const StepRing& window, const RopeAngles& angles,
                      MatrixView<const float> qr, MatrixView<float> y, Taps* taps);

}  // namespace seekline
