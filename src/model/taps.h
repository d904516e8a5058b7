// Where a forward shows its inner tensors: for comparison with references and for inspection.
#pragma once

#include <cstdint>

#include "attention/batch.h"
#include "attention/indexer.h"
#include "model/router.h"

namespace seekline {

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
};

}  // namespace seekline
