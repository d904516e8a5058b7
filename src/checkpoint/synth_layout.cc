#include "checkpoint/synth_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

namespace seekline {
namespace {

// The order of the safetensors library: I64, F32, then the narrower ones.
int dtype_rank(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return 0;
    case DType::kF32:
      return 1;
    case DType::kI32:
      return 2;
    case DType::kBF16:
      return 3;
    case DType::kF16:
      return 4;
    case DType::kF8E8M0:
      return 5;
    case DType::kF8E4M3:
      return 6;
    case DType::kI8:
      return 7;
    case DType::kU8:
      return 8;
  }
  return 9;
}

void finish(ShardLayout& shard) {
  std::stable_sort(shard.tensors.begin(), shard.tensors.end(), [](const TensorSpec& a, const TensorSpec& b) {
    const int ra = dtype_rank(a.dtype), rb = dtype_rank(b.dtype);
    return ra != rb ? ra < rb : a.name < b.name;
  });
  std::string json = R"({"__metadata__":{"format":"pt"})";
  std::int64_t offset = 0;
  for (const TensorSpec& spec : shard.tensors) {
    fmt::format_to(std::back_inserter(json), R"(,"{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   spec.name, dtype_name(spec.dtype), fmt::join(spec.shape, ","), offset,
                   offset + spec.bytes());
    shard.file_offsets.push_back(offset);
    offset += spec.bytes();
  }
  json += "}";
  json.resize((json.size() + 7) / 8 * 8, ' ');
  for (unsigned i = 0; i < 8; ++i) shard.header += static_cast<char>(json.size() >> (8 * i) & 0xff);
  shard.header += json;
  const auto start = static_cast<std::int64_t>(shard.header.size());
  for (std::int64_t& at : shard.file_offsets) at += start;
  shard.file_bytes = start + offset;
}

}  // namespace

std::vector<ShardLayout> lay_out_shards(std::vector<TensorSpec> specs, bool single_file) {
  std::map<int, ShardLayout> by_number;
  for (TensorSpec& spec : specs) {
    const int number = single_file ? 0 : spec.shard;
    by_number[number].tensors.push_back(std::move(spec));
  }
  std::vector<ShardLayout> shards;
  for (auto& [number, shard] : by_number) {
    shard.name = by_number.size() == 1
                     ? "model.safetensors"
                     : fmt::format("model-{:05}-of-{:05}.safetensors", shards.size() + 1, by_number.size());
    finish(shard);
    shards.push_back(std::move(shard));
  }
  return shards;
}

std::string index_text(const std::vector<ShardLayout>& shards) {
  std::map<std::string_view, std::string_view> file_of;
  std::int64_t bytes = 0;
  for (const ShardLayout& shard : shards) {
    for (const TensorSpec& spec : shard.tensors) {
      file_of[spec.name] = shard.name;
      bytes += spec.bytes();
    }
  }
  std::string text =
      fmt::format("{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", bytes);
  const char* separator = "\n";
  for (const auto& [tensor, file] : file_of) {
    fmt::format_to(std::back_inserter(text), "{}    \"{}\": \"{}\"", separator, tensor, file);
    separator = ",\n";
  }
  return text + "\n  }\n}\n";
}

}  // namespace seekline
