// Samples of a large checkpoint's weights tell any two fine-tunes apart.
#include <nlohmann/json.hpp>

#include "engine/golden_model.h"
#include "persist/store_fixture.h"
#include "persist/weights_hash.h"

namespace seekline::persist_test {
namespace {

// As a checkpoint of hundreds of gigabytes is read.
WeightsSample sparse_sample() {
  WeightsSample sample;
  sample.whole_bytes = 0;
  sample.dense_bytes = 200 << 10;
  sample.dense_block_bytes = 512;
  sample.sparse_block_bytes = 256;
  sample.sparse_stride_bytes = 2048;
  return sample;
}

// Changes one element of 32 in the last place, from somewhere on: what fine-tuning leaves of most values.
void tune(std::vector<char>& bytes, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin + begin % 7; i < end; i += 32) bytes[i] = static_cast<char>(bytes[i] ^ 1);
}

TEST(WeightsHash, SeesAnyTensorThatWasTuned) {
  const TempFolder folder;
  const fs::path model = folder.path() / "model";
  fs::copy(golden::model_folder("v41-tiny"), model);
  const fs::path file = model / "model.safetensors";
  const std::vector<char> original = read_file(file);
  const Checkpoint checkpoint = Checkpoint::open(model);
  const WeightsHash before = hash_weights(checkpoint, 1, sparse_sample());
  EXPECT_LT(before.bytes, checkpoint.tensor_bytes() / 2) << "this is no sample";
  std::uint64_t header = 0;
  std::memcpy(&header, original.data(), sizeof header);
  const nlohmann::json tensors =
      nlohmann::json::parse(original.begin() + 8, original.begin() + 8 + static_cast<std::ptrdiff_t>(header));
  int tried = 0;
  for (const auto& [name, entry] : tensors.items()) {
    if (name == "__metadata__") continue;
    std::vector<char> tuned = original;
    tune(tuned, 8 + header + entry["data_offsets"][0].get<std::size_t>(),
         8 + header + entry["data_offsets"][1].get<std::size_t>());
    if (tuned == original) continue;  // smaller than where the changes begin
    write_file(file, tuned);
    EXPECT_NE(hash_weights(Checkpoint::open(model), 1, sparse_sample()).hex, before.hex) << name;
    ++tried;
  }
  EXPECT_GT(tried, 200);
  write_file(file, original);
  EXPECT_EQ(hash_weights(Checkpoint::open(model), 1, sparse_sample()).hex, before.hex);
}

TEST(WeightsHash, DoesNotDependOnThreads) {
  const Checkpoint checkpoint = Checkpoint::open(golden::model_folder("v41-tiny"));
  EXPECT_EQ(hash_weights(checkpoint, 1, sparse_sample()).hex,
            hash_weights(checkpoint, 3, sparse_sample()).hex);
  EXPECT_EQ(hash_weights(checkpoint, 1).hex, hash_weights(checkpoint, 3).hex);
}

TEST(WeightsHash, ReadsSmallCheckpointsAsAWholeAndLargeOnesWithinTheirBudget) {
  const Checkpoint checkpoint = Checkpoint::open(golden::model_folder("v41-tiny"));
  EXPECT_EQ(hash_weights(checkpoint, 1).bytes, checkpoint.tensor_bytes());
  std::int64_t sparse = 0;
  for (const Tensor& tensor : checkpoint.tensors())
    if (tensor.name.find(".experts.") != std::string::npos ||
        tensor.name.find("engram.embed.") != std::string::npos)
      sparse += tensor.bytes;
  WeightsSample sample = sparse_sample();
  sample.dense_bytes = std::int64_t{1} << 40;
  const std::int64_t dense = checkpoint.tensor_bytes() - sparse;
  EXPECT_GT(hash_weights(checkpoint, 1, sample).bytes, dense) << "dense tensors are read as a whole";
  EXPECT_LT(hash_weights(checkpoint, 1, sample).bytes, dense + sparse / 2);
  sample.dense_bytes = dense / 4;
  EXPECT_LT(hash_weights(checkpoint, 1, sample).bytes, dense / 4 + dense / 8 + sparse / 2);
}

}  // namespace
}  // namespace seekline::persist_test
