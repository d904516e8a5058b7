#include "persist/weights_hash.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/mapped_file.h"
#include "core/thread_pool.h"
#include "persist/hasher.h"

namespace seekline {
namespace {

constexpr std::int64_t kLeastBlocks = 2;

bool is_sparse(const Tensor& tensor) {
  return tensor.name.find(".experts.") != std::string::npos ||
         tensor.name.find("engram.embed.") != std::string::npos;
}

// `count` blocks of `block` bytes, each in the middle of its share of the tensor; the whole where they would
// not leave anything out.
struct Blocks {
  std::int64_t count = 1, block = 0, share = 0;

  static Blocks whole(const Tensor& tensor) { return {1, tensor.bytes, tensor.bytes}; }
  static Blocks spread(const Tensor& tensor, std::int64_t count, std::int64_t block) {
    if (count * block >= tensor.bytes) return whole(tensor);
    return {count, block, tensor.bytes / count};
  }
  std::int64_t bytes() const { return count * block; }
  const std::uint8_t* at(const Tensor& tensor, std::int64_t i) const {
    return tensor.data + i * share + (share - block) / 2;
  }
};

// The bytes of each dense tensor that may be read so that all of them come to `budget`.
std::int64_t dense_limit(const Checkpoint& checkpoint, std::int64_t budget) {
  std::vector<std::int64_t> sizes;
  for (const Tensor& tensor : checkpoint.tensors())
    if (!is_sparse(tensor)) sizes.push_back(tensor.bytes);
  std::sort(sizes.begin(), sizes.end());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t each = budget / static_cast<std::int64_t>(sizes.size() - i);
    if (sizes[i] > each) return each;
    budget -= sizes[i];
  }
  return INT64_MAX;
}

std::vector<Blocks> blocks_to_read(const Checkpoint& checkpoint, const WeightsSample& sample) {
  const bool all = checkpoint.tensor_bytes() <= sample.whole_bytes;
  const std::int64_t limit = dense_limit(checkpoint, sample.dense_bytes);
  std::vector<Blocks> blocks;
  for (const Tensor& tensor : checkpoint.tensors()) {
    if (all || (!is_sparse(tensor) && tensor.bytes <= limit)) {
      blocks.push_back(Blocks::whole(tensor));
    } else if (is_sparse(tensor)) {
      const std::int64_t count = std::max(kLeastBlocks, tensor.bytes / sample.sparse_stride_bytes);
      blocks.push_back(Blocks::spread(tensor, count, sample.sparse_block_bytes));
    } else {
      const std::int64_t count = std::max(kLeastBlocks, limit / sample.dense_block_bytes);
      blocks.push_back(Blocks::spread(tensor, count, sample.dense_block_bytes));
    }
  }
  return blocks;
}

struct Sample {
  const Tensor* tensor;
  const std::uint8_t* data;
  std::int64_t bytes;
};

// Asks for all samples at once, since they lie far apart and a disk reads them side by side, and says which
// were not in memory before.
std::vector<Sample> fetch_samples(const std::vector<Tensor>& tensors, const std::vector<Blocks>& blocks) {
  std::vector<Sample> fresh;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::int64_t b = 0; blocks[i].count > 1 && b < blocks[i].count; ++b) {
      const Sample sample{&tensors[i], blocks[i].at(tensors[i], b), blocks[i].block};
      if (!map_is_resident(sample.data, sample.bytes)) fresh.push_back(sample);
      map_will_need(sample.data, sample.bytes);
    }
  }
  return fresh;
}

}  // namespace

WeightsHash hash_weights(const Checkpoint& checkpoint, int threads, const WeightsSample& sample) {
  Hasher all;
  for (const Checkpoint::File& file : checkpoint.files()) {
    all.add(file.path.filename().string());
    all.add(&file.bytes, sizeof file.bytes);
  }
  const std::vector<Tensor>& tensors = checkpoint.tensors();
  for (const Tensor& tensor : tensors)
    all.add(tensor.name + ' ' + std::string(dtype_name(tensor.dtype)) + ' ' + tensor.shape_text());
  const std::vector<Blocks> blocks = blocks_to_read(checkpoint, sample);
  const std::vector<Sample> fresh = fetch_samples(tensors, blocks);
  std::vector<Key> digests(tensors.size());
  std::atomic<std::size_t> next{0};
  ThreadPool pool(std::max(1, threads));
  pool.run([&](int) {
    for (std::size_t i = next++; i < tensors.size(); i = next++) {
      Hasher one;
      for (std::int64_t b = 0; b < blocks[i].count; ++b)
        one.add(blocks[i].at(tensors[i], b), static_cast<std::size_t>(blocks[i].block));
      digests[i] = one.key();
    }
  });
  for (const Sample& s : fresh) checkpoint.forget(*s.tensor, s.data, s.bytes);
  WeightsHash hash;
  for (const Key& digest : digests) all.add(digest.bytes.data(), digest.bytes.size());
  for (const Blocks& b : blocks) hash.bytes += b.bytes();
  hash.hex = all.key().hex();
  return hash;
}

}  // namespace seekline
