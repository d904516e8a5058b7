// What the dense decoders (llama, yoco) are made of: pre-norm blocks of plain projections and SwiGLU.
#pragma once

#include <vector>

#include "attention/dense_attend.h"
#include "attention/rope.h"
#include "checkpoint/llama.h"
#include "kernels/compute.h"

namespace seekline {

/// y = rms_norm(x) * weight; in place allowed.
void norm_rows(Compute& compute, const std::vector<float>& weight, float eps, MatrixView<const float> x,
               MatrixView<float> y);

/// y += w * x
void add_linear(Compute& compute, const WeightView& w, MatrixView<const float> x, MatrixView<float> y);

/// Queries, and keys and values side by side as a cache row holds them, of x in one stage; views in the
/// caller's arena scope. Weights may be empty: then the matrix has no columns.
struct DenseProjections {
  MatrixView<float> q;   ///< [tokens, heads * head_dim]
  MatrixView<float> kv;  ///< [tokens, 2 * kv_heads * head_dim], keys of all heads first
};
DenseProjections project(Compute& compute, const WeightView& q, const WeightView& k, const WeightView& v,
                         MatrixView<const float> x);

/// Rotates `heads` vectors of `width` channels at the front of every row, halves as pairs.
void rotate_heads(Compute& compute, MatrixView<float> x, int heads, std::int64_t width,
                  const RopeAngles& angles);

/// Encodes kv [tokens, row width] as the rows of a store with a row for every token, from the write floors
/// on.
void write_rows(Compute& compute, const TokenBatch& batch, const Store& store, MatrixView<const float> kv);

/// The shape of attention with rows as `project` makes them.
DenseShape dense_shape(const LlamaConfig& config);

/// h += down(silu(gate x) * up x), x = rms_norm(h)
void dense_feed_forward(Compute& compute, const LlamaLayerWeights& w, float eps, MatrixView<float> h);

}  // namespace seekline
