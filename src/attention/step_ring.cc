#include "attention/step_ring.h"

#include <algorithm>
#include <cstring>

namespace seekline {

StepRing::StepRing(Compute& compute, const TokenBatch& batch, const Store& store)
    : kernels_(&compute.kernels),
      batch_(&batch),
      store_(&store),
      data_bytes_(store.row.data_bytes()),
      scale_bytes_(store.row.scale_bytes()),
      data_(compute.arena.bytes(data_bytes_ * batch.count)),
      scale_(compute.arena.bytes(scale_bytes_ * batch.count)) {}

MutableRow StepRing::fresh(std::int64_t row) const {
  return {data_ + row * data_bytes_, scale_ + row * scale_bytes_};
}

void StepRing::write(std::int64_t row, const float* values) const {
  const MutableRow at = fresh(row);
  kernels_->encode_row(store_->row, values, at.data, at.scale);
}

RowRef StepRing::at(const FlatRun& run, std::int64_t position) const {
  if (position < run.first_position) return run.cache->ring_row(store_->id, position);
  const MutableRow row = fresh(run.begin + position - run.first_position);
  return {row.data, row.scale};
}

void StepRing::commit() const {
  for (const FlatRun& run : batch_->runs) {
    const std::int64_t kept = std::min(run.count, store_->ring_rows);
    for (std::int64_t i = run.count - kept; i < run.count; ++i) {
      const MutableRow from = fresh(run.begin + i);
      const MutableRow to = run.cache->mutable_ring_row(store_->id, run.first_position + i);
      std::memcpy(to.data, from.data, static_cast<std::size_t>(data_bytes_));
      std::memcpy(to.scale, from.scale, static_cast<std::size_t>(scale_bytes_));
    }
    run.cache->ledger().wrote(store_->id, kept);
  }
}

}  // namespace seekline
