// Attention of every token over all earlier rows of one growing store: MHA, GQA, MQA, and anything else whose
// selection is "all".
#pragma once

#include <cstdint>

#include "attention/batch.h"
#include "kernels/compute.h"

namespace seekline {

/// Rows hold, for each KV head, a key of key_width channels and a value of value_width channels; keys of all
/// heads first. Where key and value share channels (MLA's latent), value_first says where values start.
struct DenseShape {
  int heads = 0, kv_heads = 0;
  int key_width = 0, value_width = 0;
  int key_first = 0;    ///< channel of the first head's key
  int value_first = 0;  ///< channel of the first head's value
  float scale = 1;

  int group() const { return heads / kv_heads; }
};

/// q [tokens, heads * key_width] -> out [tokens, heads * value_width]. The rows of this step are already in
/// the store. Order of the sums: rows in position order, in tiles of kTileRows; every kSplitRows rows start a
/// softmax of their own, and these are merged in order, whether one thread or many worked on them
/// (docs/exactness.md).
void dense_attend(Compute& compute, const TokenBatch& batch, int layer, const Store& store,
                  const DenseShape& shape, MatrixView<const float> q, MatrixView<float> out);

inline constexpr std::int64_t kSplitRows = 1024;

}  // namespace seekline
