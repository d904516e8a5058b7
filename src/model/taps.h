// Where a forward shows its inner tensors: for comparison with references and for inspection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "attention/batch.h"
#include "attention/gather_attend.h"
#include "attention/indexer.h"
#include "model/router.h"

namespace seekline {

/// Attention of each token over rows that were selected for it (segment 0) and its window (segment 1), done.
struct AttentionView {
  int layer = 0;
  const TokenBatch* batch = nullptr;
  const GatherShape* shape = nullptr;
  const Store* store = nullptr;          ///< that segment 0 was selected from: finished rows are eligible
  std::span<const GatherQuery> queries;  ///< `out` is filled; `q` is not to be read, see below
  MatrixView<const float> q;             ///< [tokens, heads * key_width] as attention took them
};

/// Called from the thread that runs the forward. `what` and `layer` name a tensor as in the golden data
/// ("stream", 3).
class Taps {
 public:
  virtual ~Taps() = default;
  /// values [batch.count, cols]
  virtual void floats(const char* what, int layer, const TokenBatch& batch,
                      MatrixView<const float> values) = 0;
  /// values [batch.count, cols]
  virtual void integers(const char* what, int layer, const TokenBatch& batch,
                        MatrixView<const std::int64_t> values) = 0;
  /// Lists of ascending indices of various lengths.
  virtual void lists(const char* what, int layer, const TokenBatch& batch, const Selection& lists) = 0;
  virtual void experts(int layer, const TokenBatch& batch, const Routing& routing) = 0;
  /// Layers that select call `attention` where this is true; it costs a copy of the queries.
  virtual bool wants_attention() const { return false; }
  virtual void attention(const AttentionView&) {}
};

/// gather_attend, shown to `taps` (may be null) where rows of `store` (null: none) were selected.
inline void gather_and_show(Compute& compute, const GatherShape& shape, const TokenBatch& batch, int layer,
                            const Store* store, std::span<const GatherQuery> queries, Taps* taps) {
  const bool shown = taps && store && taps->wants_attention();
  MatrixView<float> q;
  if (shown) {
    q = compute.arena.matrix(batch.count, std::int64_t{shape.heads} * shape.key_width);
    for (std::int64_t r = 0; r < batch.count; ++r)
      std::copy_n(queries[static_cast<std::size_t>(r)].q, q.cols, q.row(r));
  }
  gather_attend(compute, shape, queries);
  if (shown) taps->attention({layer, &batch, &shape, store, queries, q});
}

}  // namespace seekline
