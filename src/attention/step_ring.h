// The rows that a step adds to a ring store (windows, compressor tails), beside the ring they will join.
#pragma once

#include <algorithm>
#include <cstdint>

#include "attention/batch.h"
#include "kernels/compute.h"

namespace seekline {

/// Fresh rows stay apart until `commit`, so that every query of the step still finds the rows it may see: a
/// ring of w rows could not hold the windows of more than one query. Lives in the arena scope it was made in.
class StepRing {
 public:
  StepRing(Compute& compute, const TokenBatch& batch, const Store& store);

  const RowFormat& format() const { return store_->row; }
  StoreId id() const { return store_->id; }

  /// The fresh row of flat token `row`.
  MutableRow fresh(std::int64_t row) const;
  /// Encodes `values` [format().width] as the fresh row of flat token `row`.
  void write(std::int64_t row, const float* values) const;
  /// The row at `position` of a run, fresh or from the ring.
  RowRef at(const FlatRun& run, std::int64_t position) const;

  /// The oldest position that the window of the token at `position` still shows.
  std::int64_t window_begin(const FlatRun& run, std::int64_t position) const {
    return std::max({std::int64_t{0}, run.window_floor, position - store_->ring_rows + 1});
  }

  /// Moves the newest rows into the rings. Call once, after the last read.
  void commit() const;

 private:
  const Kernels* kernels_;
  const TokenBatch* batch_;
  const Store* store_;
  std::int64_t data_bytes_, scale_bytes_;
  std::uint8_t* data_;
  std::uint8_t* scale_;
};

}  // namespace seekline
