// A hash of a checkpoint's weights that no other fine-tune shares (docs/prefix-store.md, "Fingerprint").
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/checkpoint.h"

namespace seekline {

/// What is read of the weights. Routed experts and Engram tables ("sparse" tensors), most of a large model,
/// are read in samples. All others, which the first forward reads anyway, are read as a whole; where they
/// come to more than `dense_bytes`, each up to one limit that fits, in blocks spread over it.
struct WeightsSample {
  std::int64_t whole_bytes = std::int64_t{512} << 20;  ///< checkpoints up to this size are read as a whole
  std::int64_t dense_bytes = std::int64_t{16} << 30;
  std::int64_t dense_block_bytes = std::int64_t{64} << 10;
  std::int64_t sparse_block_bytes = std::int64_t{4} << 10;
  std::int64_t sparse_stride_bytes = std::int64_t{32} << 20;  ///< one block for so many bytes, at least two
};

struct WeightsHash {
  std::string hex;         ///< XXH3-128
  std::int64_t bytes = 0;  ///< of tensors that were read
};

/// Over names and sizes of files, names, types and shapes of tensors, and the bytes that `sample` says: every
/// tensor is read in several places.
WeightsHash hash_weights(const Checkpoint& checkpoint, int threads, const WeightsSample& sample = {});

}  // namespace seekline
