// The indexer of DeepSeek Sparse Attention (V3.2): its own keys, queries and RoPE layout; scores and
// selection are attention/indexer.h's.
#pragma once

#include <vector>

#include "attention/batch.h"
#include "attention/indexer.h"
#include "attention/rope.h"
#include "formats/weight_view.h"
#include "kernels/compute.h"

namespace seekline {

struct SparseIndexWeights {
  WeightView wq_b;                        ///< [heads * width, q_lora_rank]
  WeightView wk;                          ///< [width, hidden]
  WeightView weights_proj;                ///< [heads, hidden]
  const std::vector<float>* k_norm;       ///< [width]
  const std::vector<float>* k_norm_bias;  ///< [width]
};

struct SparseIndexShape {
  int heads = 0, width = 0;
  BlockQuantizer quantizer = BlockQuantizer::kNone;  ///< of the inputs of wq_b and wk
};

/// Index keys of all tokens, k = layer_norm(x * wk) rotated, into `store`: rows at and above their run's
/// write floor. Keys and queries turn their first channels in half-split pairs and, unless the rows are plain
/// f32, go through a Hadamard transform, which spreads outliers before the rounding and changes no score.
void write_index_keys(Compute& compute, const SparseIndexShape& shape, const SparseIndexWeights& weights,
                      const TokenBatch& batch, const Store& store, const RopeAngles& angles,
                      MatrixView<const float> x);

/// Selects rows for every token: score = sum_h a_h relu(q_h . k), a = x * weights_proj * heads^-0.5 *
/// width^-0.5. qr [tokens, q_lora_rank]. The keys of this step are in the store already.
void select_by_index(Compute& compute, const SparseIndexShape& shape, const SparseIndexWeights& weights,
                     const TokenBatch& batch, int layer, const Store& store, const RopeAngles& angles,
                     MatrixView<const float> qr, MatrixView<const float> x, Selection& selection);

/// out = (x - mean) / sqrt(variance + 1e-6) * weight + bias, sums in f64; in place allowed. The reference's
/// eps is its own, not the config's.
void layer_norm(const float* x, const float* weight, const float* bias, std::int64_t n, float* out);

}  // namespace seekline
