// Where each tensor of a checkpoint stands: shards, headers, index.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/tensor_spec.h"

namespace seekline {

struct ShardLayout {
  std::string name;                        ///< "model-00003-of-00048.safetensors" or "model.safetensors"
  std::string header;                      ///< length and JSON, padded to a multiple of 8
  std::vector<TensorSpec> tensors;         ///< in the order of their data
  std::vector<std::int64_t> file_offsets;  ///< one per tensor
  std::int64_t file_bytes = 0;
};

/// Within a shard, tensors stand as the safetensors library writes them: by dtype, widest first, then by
/// name. So every element is aligned to its size. Shards without tensors are left out of the numbering.
std::vector<ShardLayout> lay_out_shards(std::vector<TensorSpec> specs, bool single_file);

/// The text of model.safetensors.index.json.
std::string index_text(const std::vector<ShardLayout>& shards);

}  // namespace seekline
