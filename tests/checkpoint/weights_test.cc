// Weights of golden checkpoints: taken whole, and refused where a tensor is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/checkpoint_files.h"
#include "checkpoint/scale_check.h"

namespace seekline::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(WeightsTest, EveryGoldenModelLoadsAndLeavesNothing) {
  for (const char* name : {"v41-tiny", "v41-tiny-long", "llama-gqa-tiny", "llama-mha-tiny", "llama-mqa-tiny",
                           "v4-tiny", "v32-tiny", "v32-tiny-fp8", "v3-tiny", "v2-tiny", "v2lite-tiny"}) {
    SCOPED_TRACE(name);
    EXPECT_TRUE(load_everything(golden_model(name)).empty());
  }
}

TEST(WeightsTest, DraftStagesAreListedAsPresentAndUnused) {
  const auto unused = load_everything(golden_model("v41-tiny-mtp"));
  ASSERT_EQ(unused.size(), 1U);
  EXPECT_EQ(unused[0].prefix, "mtp.");
  EXPECT_EQ(unused[0].tensors, 3 * 54 + 7);
  EXPECT_GT(unused[0].bytes, 100'000);
}

TEST(WeightsTest, DraftStagesCanBeTaken) {
  const Checkpoint checkpoint = Checkpoint::open(golden_model("v41-tiny-mtp"));
  const V41Config config =
      parse_v41_config(read_config_file((golden_model("v41-tiny-mtp") / "config.json").string()), "c");
  EXPECT_EQ(count_draft_stages(checkpoint), config.num_draft_stages);
  WeightSet set(checkpoint);
  const auto stages = load_v41_draft_weights(config, set);
  load_v41_weights(config, set);
  EXPECT_TRUE(set.finish().empty());
  ASSERT_EQ(stages.size(), 3U);
  EXPECT_EQ(stages[0].main_proj.cols, 3 * 64);
  EXPECT_EQ(stages[2].markov_head.rows, 1024);
  EXPECT_EQ(stages[1].layer.experts.size(), 4U);
}

TEST(WeightsTest, ViewsHaveTheShapesAndScalesOfTheRelease) {
  const Checkpoint checkpoint = Checkpoint::open(golden_model("v41-tiny"));
  const V41Config config =
      parse_v41_config(read_config_file((golden_model("v41-tiny") / "config.json").string()), "c");
  WeightSet set(checkpoint);
  const V41Weights w = load_v41_weights(config, set);
  set.finish();
  const V41LayerWeights& layer = w.layers[2];
  EXPECT_EQ(layer.wq_b.kind, WeightKind::kE4M3);
  EXPECT_EQ(layer.wq_b.scale_bytes(), 16 * 2);
  EXPECT_EQ(layer.wq_b.scales, checkpoint.find("layers.2.attn.wq_b.scale")->data);
  EXPECT_EQ(layer.experts[7].w2.kind, WeightKind::kE2M1);
  EXPECT_EQ(layer.experts[7].w2.cols, 64);
  EXPECT_EQ(layer.experts[7].w2.block_rows, 1);
  EXPECT_FALSE(layer.compressor_wgate.empty());
  EXPECT_TRUE(w.layers[5].compressor_wgate.empty());
  EXPECT_EQ(w.layers[1].engram.table.rows, 1362);
  EXPECT_EQ(w.layers[1].engram.table.block_cols, 32);
  EXPECT_TRUE(w.layers[4].indexer_wk.empty());
  EXPECT_EQ(w.layers[0].gate_bias_vl.size(), 8U);
  EXPECT_TRUE(std::isfinite(w.norm[0]));
}

TEST(WeightsTest, TiedHeadIsTheEmbedding) {
  const Checkpoint checkpoint = Checkpoint::open(golden_model("llama-gqa-tiny"));
  const LlamaConfig config =
      parse_llama_config(read_config_file((golden_model("llama-gqa-tiny") / "config.json").string()), "c");
  WeightSet set(checkpoint);
  const LlamaWeights w = load_llama_weights(config, set);
  EXPECT_EQ(w.head.data, w.embed.data);
}

TEST(WeightsTest, V4LayersHaveWhatTheirKindNeeds) {
  const fs::path folder = golden_model("v4-tiny");
  const Checkpoint checkpoint = Checkpoint::open(folder);
  const V4Config config = parse_v4_config(read_config_file((folder / "config.json").string()), "c");
  WeightSet set(checkpoint);
  const V4Weights w = load_v4_weights(config, set);
  EXPECT_TRUE(set.finish().empty());
  const V4LayerWeights &window = w.layers[0], &csa = w.layers[1], &hca = w.layers[2];
  EXPECT_TRUE(window.compressor.wkv.empty());
  EXPECT_EQ(window.token_experts.size(), 1024U * 2);
  EXPECT_TRUE(window.gate_bias.empty());
  EXPECT_EQ(csa.compressor.wkv.rows, 256);
  EXPECT_EQ(csa.indexer_compressor.ape.size(), 4U * 256);
  EXPECT_EQ(hca.compressor.wkv.rows, 128);
  EXPECT_EQ(hca.compressor.ape.size(), 128U * 128);
  EXPECT_TRUE(hca.indexer_wq_b.empty());
  EXPECT_EQ(hca.gate_bias.size(), 8U);
  EXPECT_EQ(csa.wq_a.block_rows, 128);
  EXPECT_EQ(w.hc_head.scale.size(), 1U);
}

TEST(WeightsTest, MlaLayersHaveWhatTheirGenerationNeeds) {
  const auto load = [](const char* name) {
    const Checkpoint checkpoint = Checkpoint::open(golden_model(name));
    const MlaConfig config =
        parse_mla_config(read_config_file((golden_model(name) / "config.json").string()), name);
    WeightSet set(checkpoint);
    MlaWeights w = load_mla_weights(config, set);
    EXPECT_TRUE(set.finish().empty());
    return w;
  };
  const MlaWeights lite = load("v2lite-tiny"), v3 = load("v3-tiny"), v32 = load("v32-tiny-fp8");
  EXPECT_FALSE(lite.layers[0].q_proj.empty());
  EXPECT_TRUE(lite.layers[0].q_a_proj.empty());
  EXPECT_FALSE(lite.layers[0].mlp.w1.empty());
  EXPECT_EQ(lite.layers[1].shared.w1.rows, 2 * 32);
  EXPECT_EQ(v3.layers[1].gate_bias.size(), 8U);
  EXPECT_EQ(v3.layers[1].kv_b_proj.rows, 4 * (32 + 48));
  EXPECT_EQ(v32.layers[0].kv_a_proj.kind, WeightKind::kE4M3);
  EXPECT_EQ(v32.layers[0].kv_a_proj.scale_kind, ScaleKind::kF32);
  EXPECT_EQ(v32.layers[0].kv_a_proj.scale_rows(), 2);
  EXPECT_EQ(v32.layers[1].indexer_k_norm_bias.size(), 128U);
}

struct BrokenWeights {
  const char* name;
  const char* model;
  std::function<void(SafetensorsFile&)> edit;
  std::vector<std::string> said;
};

void put(SafetensorsFile& f, const std::string& name, const std::string& dtype,
         const std::vector<std::int64_t>& shape, std::size_t bytes, char fill = 0) {
  f.remove(name);
  f.add(name, dtype, shape, std::string(bytes, fill));
}

// A table.
// NOLINTNEXTLINE(readability-function-size)
std::vector<BrokenWeights> broken_weights() {
  using F = SafetensorsFile;
  constexpr const char* kV41 = "v41-tiny";
  constexpr const char* kLlama = "llama-mha-tiny";
  return {
      {"MissingWeight",
       kV41,
       [](F& f) { f.remove("layers.3.attn.wkv.weight"); },
       {"'layers.3.attn.wkv.weight' is missing", "[64, 96]"}},
      {"MissingScale",
       kV41,
       [](F& f) { f.remove("layers.3.attn.wkv.scale"); },
       {"'layers.3.attn.wkv.scale' is missing", "F8_E8M0 [2, 3]"}},
      {"MissingExpert",
       kV41,
       [](F& f) { f.remove("layers.0.ffn.experts.7.w3.weight"); },
       {"'layers.0.ffn.experts.7.w3.weight' is missing"}},
      {"MissingHead", kV41, [](F& f) { f.remove("head.weight"); }, {"'head.weight' is missing"}},
      {"MissingSink",
       kV41,
       [](F& f) { f.remove("layers.6.attn.attn_sink"); },
       {"'layers.6.attn.attn_sink' is missing"}},
      {"MissingEngramTable",
       kV41,
       [](F& f) { f.remove("layers.1.engram.embed.weight"); },
       {"'layers.1.engram.embed.weight' is missing"}},
      {"Renamed",
       kV41,
       [](F& f) {
         f.remove("norm.weight");
         f.add("final_norm.weight", "BF16", {96}, std::string(192, 0));
       },
       {"'norm.weight' is missing", "'final_norm.weight'"}},
      {"Transposed",
       kV41,
       [](F& f) {
         f.header["layers.3.attn.wkv.weight"]["shape"] = {96, 64};
       },
       {"'layers.3.attn.wkv.weight'", "found F8_E4M3 [96, 64]", "[64, 96]"}},
      {"ScaleTransposed",
       kV41,
       [](F& f) {
         f.header["layers.3.attn.wkv.scale"]["shape"] = {3, 2};
       },
       {"'layers.3.attn.wkv.scale'", "[3, 2]", "[2, 3]"}},
      {"FlatShape",
       kV41,
       [](F& f) { f.header["layers.3.attn.wkv.weight"]["shape"] = {6144}; },
       {"'layers.3.attn.wkv.weight'", "[6144]"}},
      {"ScaleInF32",
       kV41,
       [](F& f) {
         put(f, "layers.3.attn.wkv.scale", "F32", {2, 3}, 24);
       },
       {"'layers.3.attn.wkv.scale'", "found F32", "expected F8_E8M0"}},
      {"WeightInI64",
       kV41,
       [](F& f) {
         put(f, "layers.3.attn.wkv.weight", "I64", {64, 96}, 64 * 96 * 8);
       },
       {"'layers.3.attn.wkv.weight'", "found I64"}},
      {"WeightInU8",
       kV41,
       [](F& f) { f.header["layers.3.attn.wkv.weight"]["dtype"] = "U8"; },
       {"'layers.3.attn.wkv.weight'", "found U8"}},
      {"ExpertNotPacked",
       kV41,
       [](F& f) {
         put(f, "layers.0.ffn.experts.0.w1.weight", "I8", {64, 96}, 64 * 96);
       },
       {"'layers.0.ffn.experts.0.w1.weight'", "found I8 [64, 96]", "[64, 48]"}},
      {"GateInE4m3",
       kV41,
       [](F& f) {
         put(f, "layers.0.ffn.gate.weight", "F8_E4M3", {8, 96}, 8 * 96);
       },
       {"'layers.0.ffn.gate.weight'", "found F8_E4M3"}},
      {"NormTooLong",
       kV41,
       [](F& f) { put(f, "norm.weight", "BF16", {128}, 256); },
       {"'norm.weight'", "[128]", "[96]"}},
      {"EngramTableShort",
       kV41,
       [](F& f) {
         put(f, "layers.1.engram.embed.weight", "F8_E4M3", {1361, 32}, 1361 * 32);
       },
       {"'layers.1.engram.embed.weight'", "[1361, 32]", "[1362, 32]"}},
      {"UnknownTensor",
       kV41,
       [](F& f) { f.add("layers.0.attn.rotary", "F32", {1}, std::string(4, 0)); },
       {"'layers.0.attn.rotary'", "not one that a model with this config has"}},
      {"ExpertTooMany",
       kV41,
       [](F& f) {
         f.add("layers.0.ffn.experts.8.w1.weight", "I8", {1, 1}, "x");
       },
       {"'layers.0.ffn.experts.8.w1.weight'"}},
      {"LayerTooMany",
       kV41,
       [](F& f) { f.add("layers.8.attn_norm.weight", "BF16", {96}, std::string(192, 0)); },
       {"'layers.8.attn_norm.weight'"}},
      {"CompressorWhereNoneBelongs",
       kV41,
       [](F& f) {
         f.add("layers.5.attn.compressor.wgate.weight", "BF16", {64, 96}, std::string(64 * 96 * 2, 0));
       },
       {"'layers.5.attn.compressor.wgate.weight'"}},
      {"NanScaleByte",
       kV41,
       [](F& f) { f.byte("layers.3.attn.wkv.scale", 4) = '\xff'; },
       {"'layers.3.attn.wkv.scale'", "scale 4 is not a finite number"}},
      {"NanExpertScale",
       kV41,
       [](F& f) { f.byte("layers.7.ffn.experts.3.w2.scale", 100) = '\xff'; },
       {"'layers.7.ffn.experts.3.w2.scale'", "scale 100"}},
      {"NanEngramScale",
       kV41,
       [](F& f) { f.byte("layers.4.engram.embed.scale", 0) = '\xff'; },
       {"'layers.4.engram.embed.scale'"}},
      {"NanInNorm",
       kV41,
       [](F& f) {
         f.byte("layers.2.attn_norm.weight", 11) = '\x7f';
         f.byte("layers.2.attn_norm.weight", 10) = '\xc0';
       },
       {"'layers.2.attn_norm.weight'", "element 5"}},
      {"InfinityInSink",
       kV41,
       [](F& f) {
         for (int i = 0; i < 4; ++i)
           f.byte("layers.2.attn.attn_sink", static_cast<std::size_t>(i)) = "\0\0\x80\x7f"[i];
       },
       {"'layers.2.attn.attn_sink'", "inf"}},
      {"LlamaMissing",
       kLlama,
       [](F& f) { f.remove("model.layers.1.mlp.up_proj.weight"); },
       {"'model.layers.1.mlp.up_proj.weight' is missing"}},
      {"LlamaQuantized",
       kLlama,
       [](F& f) {
         put(f, "model.layers.1.mlp.up_proj.weight", "F8_E4M3", {96, 64}, 96 * 64);
       },
       {"'model.layers.1.mlp.up_proj.weight'", "found F8_E4M3"}},
      {"LlamaBias",
       kLlama,
       [](F& f) { f.add("model.layers.0.self_attn.q_proj.bias", "BF16", {64}, std::string(128, 0)); },
       {"'model.layers.0.self_attn.q_proj.bias'"}},
      {"LlamaVocabDiffers",
       kLlama,
       [](F& f) {
         put(f, "lm_head.weight", "BF16", {255, 64}, 255 * 128);
       },
       {"'lm_head.weight'", "[255, 64]"}},
  };
}

class BrokenWeightsTest : public ::testing::TestWithParam<BrokenWeights> {};

TEST_P(BrokenWeightsTest, AreRefusedWithASentenceThatNamesTheTensor) {
  const TempFolder folder;
  const fs::path golden = golden_model(GetParam().model);
  SafetensorsFile file = SafetensorsFile::read(golden / "model.safetensors");
  GetParam().edit(file);
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  write_bytes(folder.path() / "config.json", read_bytes(golden / "config.json"));
  const Error error = error_of([&] { load_everything(folder.path()); });
  EXPECT_EQ(error.code(), ErrorCode::kBadFile) << error.what();
  for (const std::string& said : GetParam().said) EXPECT_THAT(error.what(), HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenWeightsTest, ::testing::ValuesIn(broken_weights()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(BrokenWeightsTest, AllProblemsAreReportedTogether) {
  const TempFolder folder;
  SafetensorsFile file = SafetensorsFile::read(golden_model("v41-tiny") / "model.safetensors");
  file.remove("norm.weight");
  file.header["layers.3.attn.wkv.weight"]["shape"] = {96, 64};
  file.byte("layers.0.attn.wo_a.scale", 0) = '\xff';
  file.add("stray", "U8", {1}, "x");
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  write_bytes(folder.path() / "config.json", read_bytes(golden_model("v41-tiny") / "config.json"));
  EXPECT_EQ(error_of([&] { load_everything(folder.path()); }).problems().size(), 4U);
}

TEST(WeightsTest, PlainLinearsAreAcceptedInPlaceOfQuantizedOnes) {
  const TempFolder folder;
  SafetensorsFile file = SafetensorsFile::read(golden_model("v41-tiny") / "model.safetensors");
  file.remove("layers.3.attn.wkv.scale");
  put(file, "layers.3.attn.wkv.weight", "BF16", {64, 96}, 64 * 96 * 2);
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  write_bytes(folder.path() / "config.json", read_bytes(golden_model("v41-tiny") / "config.json"));
  EXPECT_TRUE(load_everything(folder.path()).empty());
}

TEST(WeightsTest, VisionTensorsAreListedAsPresentAndUnused) {
  const TempFolder folder;
  SafetensorsFile file = SafetensorsFile::read(golden_model("v41-tiny") / "model.safetensors");
  file.add("vision.norm.weight", "BF16", {4}, std::string(8, 0));
  file.add("aligner.w1.bias", "BF16", {4}, std::string(8, 0));
  file.add("image_start", "BF16", {4}, std::string(8, 0));
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  write_bytes(folder.path() / "config.json", read_bytes(golden_model("v41-tiny") / "config.json"));
  std::vector<std::string> prefixes;
  for (const auto& unused : load_everything(folder.path())) prefixes.push_back(unused.prefix);
  EXPECT_THAT(prefixes, ElementsAre("vision.", "aligner.", "image_start"));
}

TEST(WeightsTest, BadScalesAreFoundInWholeCheckpoints) {
  const TempFolder folder;
  SafetensorsFile file;
  file.add("a.scale", "F8_E8M0", {4}, std::string("\x7f\x7f\xff\x7f", 4));
  file.add("b.weight_scale_inv", "F32", {2}, std::string("\0\0\x80\x3f\0\0\xc0\x7f", 8));
  file.add("c.scale", "F8_E8M0", {2}, std::string("\x7f\xfe", 2));
  file.add("d.weight", "F32", {1}, std::string("\0\0\xc0\x7f", 4));
  write_bytes(folder.path() / "model.safetensors", file.bytes());
  const Checkpoint checkpoint = Checkpoint::open(folder.path());
  EXPECT_EQ(scale_bytes(checkpoint), 4 + 8 + 2);
  EXPECT_THAT(find_bad_scales(checkpoint),
              ElementsAre(HasSubstr("'a.scale' in model.safetensors: scale 2"),
                          HasSubstr("'b.weight_scale_inv' in model.safetensors: scale 1")));
}

}  // namespace
}  // namespace seekline::testing
