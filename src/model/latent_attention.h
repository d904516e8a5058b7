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

/// window row of every token: rms_norm(x * wkv) rotated, encoded into the ring.
void write_window_rows(Compute& compute, const LatentAttentionShape& shape, const WeightView& wkv,
                       const std::vector<float>& kv_norm, const RopeAngles& angles, MatrixView<const float> x,
                       const StepRing& ring);

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

/// q [tokens, heads * head_dim] -> attention outputs in place, rotated back. Counts what it reads in the
/// ledgers. Attention over selected rows is shown to `taps`, which may be null.
void attend_latent(Compute& compute, const LatentAttentionShape& shape, const TokenBatch& batch, int layer,
                   const SelectedRows& selected, const StepRing& window, const float* sinks,
                   const RopeAngles& angles, MatrixView<float> q, Taps* taps);

/// y = wo_b * concat_g(wo_a[g] * heads of group g). The input of wo_a is not quantized; that of wo_b is.
void grouped_output(Compute& compute, const LatentAttentionShape& shape, const WeightView& wo_a,
                    const WeightView& wo_b, MatrixView<const float> heads, MatrixView<float> y);

}  // namespace seekline
