// Synthetic checkpoints: byte for byte what the formula says, in the layout of the releases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <ctime>
#include <map>
#include <set>

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/families.h"
#include "checkpoint/presets.h"
#include "checkpoint/sha256.h"
#include "checkpoint/synth.h"
#include "checkpoint/synth_formula.h"

namespace seekline::testing {
namespace {

using ::testing::HasSubstr;

std::string bytes_of(const TensorSpec& spec, std::uint64_t seed) {
  std::string bytes(static_cast<std::size_t>(spec.bytes()), '\0');
  const auto elements = spec.bytes() / static_cast<std::int64_t>(dtype_bytes(spec.dtype));
  SynthTensor(spec, seed).fill(0, elements, reinterpret_cast<std::uint8_t*>(bytes.data()));
  return bytes;
}

// The golden models hold formula bytes with the seed of their cases.json.
void expect_formula_bytes(const std::string& model) {
  SCOPED_TRACE(model);
  const Checkpoint checkpoint = Checkpoint::open(golden_model(model));
  const std::uint64_t seed = json::parse(read_bytes(golden_model(model) / "cases.json"))["seed"];
  const auto config = read_config_file((golden_model(model) / "config.json").string());
  const std::vector<TensorSpec> specs = tensor_specs_of(config, model);
  EXPECT_EQ(specs.size(), checkpoint.tensors().size());
  for (const TensorSpec& spec : specs) {
    const Tensor* tensor = checkpoint.find(spec.name);
    ASSERT_NE(tensor, nullptr) << spec.name;
    EXPECT_EQ(tensor->dtype, spec.dtype) << spec.name;
    ASSERT_EQ(tensor->shape, spec.shape) << spec.name;
    EXPECT_TRUE(bytes_of(spec, seed) == std::string(reinterpret_cast<const char*>(tensor->data),
                                                    static_cast<std::size_t>(tensor->bytes)))
        << spec.name;
  }
}

TEST(SynthTest, GoldenModelsAreReproducedByteForByte) {
  for (const char* model :
       {"v41-tiny", "v41-tiny-long", "v41-tiny-mtp", "llama-gqa-tiny", "llama-mha-tiny", "llama-mqa-tiny",
        "v4-tiny", "v32-tiny", "v32-tiny-fp8", "v3-tiny", "v2-tiny", "v2lite-tiny"})
    expect_formula_bytes(model);
}

TEST(SynthTest, AWrittenCheckpointIsTheGoldenFile) {
  const TempFolder folder;
  const fs::path golden = golden_model("v41-tiny-mtp");
  SynthOptions options;
  options.seed = json::parse(read_bytes(golden / "cases.json"))["seed"];
  options.tokenizer = golden;
  std::int64_t last = 0;
  options.progress = [&](std::int64_t done, std::int64_t total) {
    EXPECT_LE(last, done);
    EXPECT_LE(done, total);
    last = done;
  };
  const SynthResult result =
      write_synth(read_config_file((golden / "config.json").string()), "c", folder.path(), options);
  EXPECT_EQ(result.files, 1);
  EXPECT_EQ(last, result.tensor_bytes);
  EXPECT_TRUE(read_bytes(folder.path() / "model.safetensors") == read_bytes(golden / "model.safetensors"));
  EXPECT_EQ(read_bytes(folder.path() / "tokenizer.json"), read_bytes(golden / "tokenizer.json"));
  EXPECT_EQ(load_everything(folder.path()).size(), 1U);
}

TEST(SynthTest, PiecesJoinWithoutASeam) {
  for (const DType dtype : {DType::kF8E4M3, DType::kI8, DType::kF8E8M0, DType::kBF16, DType::kF32}) {
    const TensorSpec spec{"x.weight", dtype, {300, 1001}, TensorRole::kLinear, 1001, 0};
    const std::string whole = bytes_of(spec, 7);
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype));
    std::string joined(whole.size(), '\0');
    for (std::int64_t first = 0; first < 300300; first += 4096)
      SynthTensor(spec, 7).fill(first, std::min<std::int64_t>(4096, 300300 - first),
                                reinterpret_cast<std::uint8_t*>(joined.data()) + first * width);
    EXPECT_TRUE(joined == whole) << dtype_name(dtype);
  }
}

TEST(SynthTest, PowerScalesAreTheNumbersThatOthersSpreadAround) {
  const TensorSpec spec{"x.weight_scale_inv", DType::kF32, {9, 40}, TensorRole::kInverseScale, 5120, 0};
  std::vector<float> spread(360), powers(360);
  SynthTensor(spec, 7).fill(0, 360, reinterpret_cast<std::uint8_t*>(spread.data()));
  SynthTensor(spec, 7, true).fill(0, 360, reinterpret_cast<std::uint8_t*>(powers.data()));
  EXPECT_GT(std::set<float>(spread.begin(), spread.end()).size(), 300U);
  for (std::size_t i = 0; i < spread.size(); ++i) {
    EXPECT_EQ(powers[i], 0x1p-6f);  // 1 / (sqrt(5120) * 0.75), rounded
    EXPECT_NEAR(spread[i], powers[i], 0.25f * powers[i]);
  }
}

TEST(SynthTest, ExpertIdsAreDistinctWithinARow) {
  const TensorSpec spec{"layers.0.ffn.gate.tid2eid", DType::kI64, {500, 6}, TensorRole::kTokenExperts, 8, 0};
  const std::string bytes = bytes_of(spec, 3);
  for (std::size_t row = 0; row < 500; ++row) {
    std::set<std::int64_t> ids;
    for (std::size_t c = 0; c < 6; ++c) {
      std::int64_t id = 0;
      std::memcpy(&id, bytes.data() + (row * 6 + c) * 8, 8);
      EXPECT_TRUE(id >= 0 && id < 8);
      ids.insert(id);
    }
    EXPECT_EQ(ids.size(), 6U);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kHashedBytes = 1'000'000;  // per tensor: gigabytes would take many minutes here
constexpr double kOpenSeconds = 20;
#else
constexpr std::int64_t kHashedBytes = std::int64_t{1} << 40;
constexpr double kOpenSeconds = 2;
#endif

// weights.sha256: "<first 32 hex digits> <tensor> <dtype> <shape>" per line.
void expect_hashes(const std::string& name) {
  const fs::path golden = fs::path(SEEKLINE_SOURCE_DIR) / "tests/golden/data/synth" / name;
  const std::uint64_t seed = json::parse(read_bytes(golden / "cases.json"))["seed"];
  std::map<std::string, TensorSpec> specs;
  for (TensorSpec& spec : tensor_specs_of(read_config_file((golden / "config.json").string()), name))
    specs[spec.name] = spec;
  std::ifstream lines(golden / "weights.sha256");
  std::string hash, tensor, dtype, shape;
  std::size_t seen = 0;
  while (lines >> hash >> tensor >> dtype && std::getline(lines, shape)) {
    ++seen;
    ASSERT_TRUE(specs.contains(tensor)) << tensor;
    const TensorSpec& spec = specs[tensor];
    EXPECT_EQ(dtype_name(spec.dtype), dtype) << tensor;
    EXPECT_EQ(json(spec.shape), json::parse(shape)) << tensor;
    if (spec.bytes() > kHashedBytes) continue;
    EXPECT_EQ(sha256(bytes_of(spec, seed)).substr(0, 32), hash) << tensor;
  }
  EXPECT_EQ(seen, specs.size());
}

TEST(SynthTest, TrueShapesOfV41HashAsTheGoldenOnes) { expect_hashes("v41-true6"); }
TEST(SynthTest, TrueShapesOfV4HashAsTheGoldenOnes) { expect_hashes("v4-true4"); }
TEST(SynthTest, TrueShapesOfV2LiteHashAsTheGoldenOnes) { expect_hashes("v2lite-true3"); }

struct Totals {
  std::size_t tensors = 0;
  std::int64_t bytes = 0;
  int shards = 0;
};

Totals totals_of(const json& config) {
  Totals totals;
  for (const TensorSpec& spec : tensor_specs_of(config, "preset")) {
    ++totals.tensors;
    totals.bytes += spec.bytes();
    totals.shards = std::max(totals.shards, spec.shard + 1);
  }
  return totals;
}

TEST(SynthTest, ReleasedV41HasItsPublishedTotals) {
  const Totals totals = totals_of(preset_config("v41-flash"));
  EXPECT_EQ(totals.tensors, 96085U);
  EXPECT_EQ(totals.bytes, 510'286'023'000);
  EXPECT_EQ(totals.shards, 48);
}

TEST(SynthTest, ReleasedV4HasItsPublishedTotals) {
  const Totals with_stages = totals_of(preset_config("v4-flash")),
               preview = totals_of(preset_config("v4-flash-preview"));
  EXPECT_EQ(with_stages.tensors, 72317U);
  EXPECT_EQ(with_stages.bytes, 166'878'536'440);
  EXPECT_EQ(with_stages.shards, 48);
  EXPECT_EQ(preview.tensors, 69187U);
  EXPECT_EQ(preview.bytes, 159'609'485'896);
  EXPECT_EQ(preview.shards, 46);
}

TEST(SynthTest, V41WithoutDraftsAndVisionIsTheRest) {
  const json whole = preset_config("v41-flash"), text = preset_config("v41-flash-text");
  std::int64_t extra = 0;
  std::size_t count = 0;
  for (const TensorSpec& spec : tensor_specs_of(whole, "preset")) {
    const std::string first = spec.name.substr(0, spec.name.find_first_of("._"));
    if (first != "mtp" && first != "vision" && first != "aligner" && first != "image") continue;
    extra += spec.bytes();
    ++count;
  }
  EXPECT_EQ(count, 2401U + 259U + 4U + 3U);
  EXPECT_EQ(totals_of(text).bytes, totals_of(whole).bytes - extra);
  EXPECT_EQ(totals_of(text).tensors, totals_of(whole).tensors - count);
  EXPECT_EQ(totals_of(text).shards, 1 + 40 + 1 + 2);
}

// Resident bytes of this process.
std::int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::int64_t pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

TEST(SynthTest, TheReleasedSizeOpensFastAsSparseFiles) {
  const TempFolder folder;
  SynthOptions options;
  options.sparse = true;
  write_synth(preset_config("v41-flash"), "preset", folder.path(), options);
  const std::int64_t before = resident_bytes();
  const std::clock_t start = std::clock();  // processor time: a busy machine does not make the test fail
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_LT(seconds, kOpenSeconds);
  EXPECT_EQ(checkpoint.files().size(), 48U);
  EXPECT_EQ(checkpoint.tensors().size(), 96085U);
  EXPECT_EQ(checkpoint.tensor_bytes(), 510'286'023'000);
  EXPECT_LT(resident_bytes() - before, 300'000'000);
  RecordProperty("milliseconds", static_cast<int>(seconds * 1000));
  EXPECT_EQ(load_everything(folder.path()).size(), 6U);
}

TEST(SynthTest, ShardsCarryTheNamesOfTheRelease) {
  const TempFolder folder;
  SynthOptions options;
  options.sparse = true;
  write_synth(preset_config("v41-flash"), "preset", folder.path(), options);
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  const auto file = [&](const char* name) { return checkpoint.file_name(*checkpoint.find(name)); };
  EXPECT_EQ(file("vision.norm.weight"), "model-00001-of-00048.safetensors");
  EXPECT_EQ(file("image_start"), "model-00002-of-00048.safetensors");
  EXPECT_EQ(file("layers.0.attn.wkv.weight"), "model-00003-of-00048.safetensors");
  EXPECT_EQ(file("layers.39.ffn.gate.bias"), "model-00042-of-00048.safetensors");
  EXPECT_EQ(file("head.weight"), "model-00043-of-00048.safetensors");
  EXPECT_EQ(file("mtp.2.norm.weight"), "model-00046-of-00048.safetensors");
  EXPECT_EQ(file("layers.1.engram.wkv.weight"), "model-00047-of-00048.safetensors");
  EXPECT_EQ(file("layers.14.engram.embed.scale"), "model-00048-of-00048.safetensors");
}

TEST(SynthTest, ACutModelKeepsTheRolesOfItsFirstLayers) {
  json config = preset_config("v41-flash");
  ConfigOverrides cut;
  cut.layers = 21;
  cut.experts = 8;
  cut.vocab = 1024;
  cut.set = {{"index_topk", "128"}, {"text_config.candidate_topk_blocks", "40"}};
  apply_overrides(config, cut);
  const V41Config c = parse_v41_config(config, "cut");
  EXPECT_THAT(c.kv_source_layer_ids, ::testing::ElementsAre(2, 8, 14, 20));
  EXPECT_THAT(c.index_source_layer_ids, ::testing::ElementsAre(2, 8, 14, 20));
  EXPECT_EQ(c.candidate_source_layer_id, 20);
  EXPECT_EQ(c.index_topk, 128);
  EXPECT_EQ(c.n_routed_experts, 8);
  EXPECT_EQ(c.draft_experts, 8);
  EXPECT_EQ(c.image_token_id, 1023);
  EXPECT_THAT(c.draft_target_layers, ::testing::ElementsAre(18, 19, 20));
  EXPECT_THAT(c.engram_layer_ids, ::testing::ElementsAre(1, 14));
}

TEST(SynthTest, OverridesThatMakeNoSenseAreRefused) {
  const auto refused = [](json config, const ConfigOverrides& overrides) {
    const Error error = error_of([&] { apply_overrides(config, overrides); });
    EXPECT_EQ(error.code(), ErrorCode::kUsage) << error.what();
    return std::string(error.what());
  };
  const json v41 = preset_config("v41-flash"), llama = preset_config("llama-8b");
  ConfigOverrides o;
  o.layers = 41;
  EXPECT_THAT(refused(v41, o), HasSubstr("has 40 layers: it cannot be cut to 41"));
  o = {};
  o.experts = 8;
  EXPECT_THAT(refused(llama, o), HasSubstr("no routed experts"));
  o = {};
  o.set = {{"vocab_size.of.what", "1"}};
  EXPECT_THAT(refused(llama, o), HasSubstr("'vocab_size' is not an object"));
  o.set = {{"rope_scaling.", "1"}};
  EXPECT_THAT(refused(llama, o), HasSubstr("names no key"));
  json odd = v41;
  odd["text_config"]["dspark_target_layer_ids"] = {"a"};
  o = {};
  o.layers = 3;
  EXPECT_THAT(refused(odd, o), HasSubstr("cannot be changed like this"));
}

TEST(SynthTest, EveryCutOfEveryPresetStillParses) {
  for (const Preset& preset : presets()) {
    const json whole = preset_config(preset.name);
    const json& text = whole.contains("text_config") ? whole["text_config"] : whole;
    for (std::int64_t layers = 1; layers <= text["num_hidden_layers"]; ++layers) {
      json config = whole;
      ConfigOverrides cut;
      cut.layers = layers;
      if (text.contains("n_routed_experts")) cut.experts = 1 + layers % 8;
      cut.vocab = 512;
      apply_overrides(config, cut);
      EXPECT_NO_THROW(tensor_specs_of(config, preset.name)) << preset.name << " " << layers;
    }
  }
}

TEST(SynthTest, WhatCannotBeWrittenIsRefused) {
  const TempFolder folder;
  SynthOptions options;
  options.sparse = true;
  const json config = preset_config("smollm2-135m");
  options.tokenizer = folder.path() / "absent.json";
  EXPECT_EQ(error_of([&] { write_synth(config, "c", folder.path(), options); }).code(), ErrorCode::kNotFound);
  options.tokenizer.clear();
  write_synth(config, "c", folder.path(), options);
  const Error twice = error_of([&] { write_synth(config, "c", folder.path(), options); });
  EXPECT_EQ(twice.code(), ErrorCode::kUsage);
  EXPECT_THAT(twice.what(), HasSubstr("already holds a checkpoint"));
  options.sparse = false;
  const TempFolder other;
  const Error full = error_of([&] { write_synth(preset_config("v41-flash"), "c", other.path(), options); });
  EXPECT_EQ(full.code(), ErrorCode::kIo);
  EXPECT_THAT(full.what(), HasSubstr("510286023000"));
  EXPECT_THAT(error_of([] { preset_config("v99"); }).what(), HasSubstr("v41-flash"));
  EXPECT_THAT(error_of([] { tensor_specs_of({{"model_type", "gpt5"}}, "c"); }).what(), HasSubstr("gpt5"));
}

}  // namespace
}  // namespace seekline::testing
