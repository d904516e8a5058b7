// Configs that are incomplete, absurd, contradictory or ask for what the engine does not do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/checkpoint_files.h"

namespace seekline::testing {
namespace {

using ::testing::HasSubstr;

json golden_config(const std::string& model) {
  return json::parse(read_bytes(golden_model(model) / "config.json"));
}

struct BrokenConfig {
  const char* name;
  std::function<void(json&)> edit;
  std::vector<std::string> said;
};

std::string said_by(const std::function<void()>& parse) {
  const Error error = error_of(parse);
  EXPECT_TRUE(error.code() == ErrorCode::kBadFile || error.code() == ErrorCode::kUnsupported) << error.what();
  return error.what();
}

json& text(json& c) { return c["text_config"]; }

std::vector<BrokenConfig> absurd_values() {
  return {
      {"HiddenZero", [](json& c) { text(c)["hidden_size"] = 0; }, {"'text_config.hidden_size'", "found 0"}},
      {"HiddenNegative",
       [](json& c) { text(c)["hidden_size"] = -96; },
       {"'text_config.hidden_size'", "found -96"}},
      {"HiddenHuge", [](json& c) { text(c)["hidden_size"] = 1LL << 40; }, {"'text_config.hidden_size'"}},
      {"HiddenBeyond63Bits", [](json& c) { text(c)["hidden_size"] = ~0ULL; }, {"'text_config.hidden_size'"}},
      {"HiddenFraction",
       [](json& c) { text(c)["hidden_size"] = 96.5; },
       {"'text_config.hidden_size'", "96.5"}},
      {"HiddenText", [](json& c) { text(c)["hidden_size"] = "96"; }, {"'text_config.hidden_size'", "\"96\""}},
      {"HiddenNull",
       [](json& c) { text(c)["hidden_size"] = nullptr; },
       {"'text_config.hidden_size' is missing"}},
      {"HiddenOdd", [](json& c) { text(c)["hidden_size"] = 100; }, {"hidden_size is 100", "multiple of 32"}},
      {"HeadDimOdd", [](json& c) { text(c)["head_dim"] = 60; }, {"head_dim is 60"}},
      {"ExpertWidthOdd",
       [](json& c) { text(c)["moe_intermediate_size"] = 65; },
       {"moe_intermediate_size is 65"}},
      {"RopeOdd", [](json& c) { text(c)["qk_rope_head_dim"] = 15; }, {"qk_rope_head_dim is 15"}},
      {"RopeWiderThanHead",
       [](json& c) { text(c)["qk_rope_head_dim"] = 96; },
       {"qk_rope_head_dim is 96", "head_dim = 64"}},
      {"GroupsDoNotDivide", [](json& c) { text(c)["o_groups"] = 3; }, {"o_groups = 3 does not divide"}},
      {"LayersZero", [](json& c) { text(c)["num_hidden_layers"] = 0; }, {"'text_config.num_hidden_layers'"}},
      {"LayersHuge",
       [](json& c) { text(c)["num_hidden_layers"] = 100000; },
       {"'text_config.num_hidden_layers'"}},
      {"TopMoreThanExperts",
       [](json& c) { text(c)["num_experts_per_tok"] = 9; },
       {"num_experts_per_tok is 9", "n_routed_experts = 8"}},
      {"SharedExpertsTwo",
       [](json& c) { text(c)["n_shared_experts"] = 2; },
       {"'text_config.n_shared_experts'"}},
      {"EpsZero", [](json& c) { text(c)["rms_norm_eps"] = 0; }, {"'text_config.rms_norm_eps'"}},
      {"ThetaZero", [](json& c) { text(c)["rope_theta"] = 0; }, {"'text_config.rope_theta'"}},
      {"WindowZero", [](json& c) { text(c)["sliding_window"] = 0; }, {"'text_config.sliding_window'"}},
      {"SinkhornZero",
       [](json& c) { text(c)["hc_sinkhorn_iters"] = 0; },
       {"'text_config.hc_sinkhorn_iters'"}},
      {"StreamsHuge", [](json& c) { text(c)["hc_mult"] = 1000; }, {"'text_config.hc_mult'"}},
      {"TopkZero", [](json& c) { text(c)["index_topk"] = 0; }, {"'text_config.index_topk'"}},
      {"EosBeyondVocab", [](json& c) { c["eos_token_id"] = 5000; }, {"eos_token_id is 5000"}},
      {"EosText", [](json& c) { c["eos_token_id"] = "end"; }, {"'eos_token_id'"}},
      {"NormTopkText",
       [](json& c) { text(c)["norm_topk_prob"] = "yes"; },
       {"'text_config.norm_topk_prob'", "true or false"}},
  };
}

std::vector<BrokenConfig> unhonoured_values() {
  return {
      {"UnknownKey",
       [](json& c) { text(c)["attention_sink_scale"] = 2; },
       {"'text_config.attention_sink_scale'", "knows how to honour"}},
      {"UnknownTopKey", [](json& c) { c["logit_scale"] = 2; }, {"'logit_scale'", "knows how to honour"}},
      {"UnknownQuantizationKey",
       [](json& c) { c["quantization_config"]["ignored_layers"] = {"a"}; },
       {"'quantization_config.ignored_layers'"}},
      {"UnknownRopeKey",
       [](json& c) { text(c)["rope_scaling"]["mscale"] = 2; },
       {"'text_config.rope_scaling.mscale'"}},
      {"OtherActivation",
       [](json& c) { text(c)["hidden_act"] = "gelu"; },
       {"'text_config.hidden_act'", "\"gelu\"", "\"silu\""}},
      {"OtherScoring", [](json& c) { text(c)["scoring_func"] = "softmax"; }, {"'text_config.scoring_func'"}},
      {"OtherTopkMethod", [](json& c) { text(c)["topk_method"] = "greedy"; }, {"'text_config.topk_method'"}},
      {"AttentionBias", [](json& c) { text(c)["attention_bias"] = true; }, {"'text_config.attention_bias'"}},
      {"TiedHead",
       [](json& c) { text(c)["tie_word_embeddings"] = true; },
       {"'text_config.tie_word_embeddings'"}},
      {"TwoKvHeads",
       [](json& c) { text(c)["num_key_value_heads"] = 2; },
       {"'text_config.num_key_value_heads'"}},
      {"OtherRopeType", [](json& c) { text(c)["rope_scaling"]["rope_type"] = "longrope"; }, {"'longrope'"}},
      {"RopeTypesDisagree",
       [](json& c) { text(c)["rope_scaling"]["type"] = "linear"; },
       {"'linear'", "disagree"}},
      {"RopeFactorMissing",
       [](json& c) { text(c)["rope_scaling"].erase("factor"); },
       {"'text_config.rope_scaling.factor' is missing"}},
      {"RopeScalingText",
       [](json& c) { text(c)["rope_scaling"] = "yarn"; },
       {"'text_config.rope_scaling'", "an object"}},
      {"NoQuantization",
       [](json& c) { c.erase("quantization_config"); },
       {"'quantization_config' is missing"}},
      {"OtherBlockSize",
       [](json& c) {
         c["quantization_config"]["weight_block_size"] = {128, 128};
       },
       {"weight_block_size", "[32, 32]"}},
      {"OtherScaleFormat",
       [](json& c) { c["quantization_config"]["scale_fmt"] = "float32"; },
       {"'quantization_config.scale_fmt'"}},
      {"OtherExperts",
       [](json& c) { c["quantization_config"]["expert_dtype"] = "int4"; },
       {"'quantization_config.expert_dtype'"}},
      {"OtherQuantizer",
       [](json& c) { c["quantization_config"]["quant_method"] = "awq"; },
       {"'quantization_config.quant_method'"}},
      {"StaticScales",
       [](json& c) { c["quantization_config"]["activation_scheme"] = "static"; },
       {"'quantization_config.activation_scheme'"}},
      {"NoTextConfig", [](json& c) { c.erase("text_config"); }, {"'text_config' is missing"}},
      {"OtherFamily", [](json& c) { c["model_type"] = "mixtral"; }, {"'model_type'", "mixtral"}},
      {"NotAnObject", [](json& c) { c = json::array(); }, {"not a JSON object"}},
  };
}

std::vector<BrokenConfig> contradictions() {
  return {
      {"RatiosTooFew",
       [](json& c) {
         text(c)["compress_ratios"] = {0, 0, 2};
       },
       {"3 entries for 8 layers"}},
      {"RatioNegative",
       [](json& c) { text(c)["compress_ratios"][3] = -2; },
       {"'text_config.compress_ratios'"}},
      {"DraftRatioNotZero",
       [](json& c) { text(c)["compress_ratios"].push_back(2); },
       {"entry 8", "expected 0"}},
      {"RatioDiffersFromStore",
       [](json& c) { text(c)["compress_ratios"][3] = 1; },
       {"layer 3 has compress_ratio 1", "of layer 2, has 2"}},
      {"LayerBeforeFirstSource",
       [](json& c) { text(c)["compress_ratios"][1] = 2; },
       {"layer 1", "kv_source_layer_ids is at or before"}},
      {"SourcesDescend",
       [](json& c) {
         text(c)["kv_source_layer_ids"] = {5, 2};
       },
       {"kv_source_layer_ids: layers must ascend"}},
      {"SourceTwice",
       [](json& c) {
         text(c)["index_source_layer_ids"] = {2, 4, 4, 5, 6};
       },
       {"index_source_layer_ids: layers must ascend"}},
      {"SourceBeyondLayers",
       [](json& c) {
         text(c)["kv_source_layer_ids"] = {2, 5, 8};
       },
       {"kv_source_layer_ids: names layer 8 of 8"}},
      {"SourceIsWindowOnly",
       [](json& c) {
         text(c)["kv_source_layer_ids"] = {1, 2, 5};
       },
       {"layer 1 has compress_ratio 0"}},
      {"KvSourceDoesNotSelect",
       [](json& c) {
         text(c)["index_source_layer_ids"] = {2, 4, 6};
         text(c)["candidate_source_layer_id"] = 6;
       },
       {"layer 5 reads the store of layer 5", "selected by then"}},
      {"IndexSourceWithoutStore",
       [](json& c) { text(c)["kv_source_layer_ids"] = {5}; },
       {"layer 2", "kv_source_layer_ids is at or before"}},
      {"PoolOfNoSource",
       [](json& c) { text(c)["candidate_source_layer_id"] = 7; },
       {"candidate_source_layer_id is 7"}},
      {"PoolTooSmall",
       [](json& c) { text(c)["index_topk"] = 14; },
       {"pool of 4 blocks of 4", "index_topk = 14"}},
      {"PoolOfAnotherRatio",
       [](json& c) { text(c)["candidate_source_layer_id"] = 2; },
       {"layer 5 selects inside the pool of layer 2"}},
      {"EngramLayersDescend",
       [](json& c) {
         text(c)["engram_layer_ids"] = {4, 1};
       },
       {"engram_layer_ids: layers must ascend"}},
      {"EngramBeyondLayers",
       [](json& c) {
         text(c)["engram_layer_ids"] = {1, 8};
       },
       {"engram_layer_ids: names layer 8"}},
      {"EngramCountsDiffer",
       [](json& c) { text(c)["engram_num_embeddings"] = {1362}; },
       {"2 engram_layer_ids, but 1"}},
      {"EngramPadBeyondVocab",
       [](json& c) { text(c)["engram_pad_token_id"] = 4000; },
       {"engram_pad_token_id is 4000"}},
      {"EngramPadTwice", [](json& c) { text(c)["engram_pad_id"] = 2; }, {"two spellings"}},
      {"EngramKeyMissing",
       [](json& c) { text(c).erase("engram_n_heads"); },
       {"'text_config.engram_n_heads' is missing"}},
      {"EngramClassesBeyondVocab",
       [](json& c) { text(c)["engram_compressed_vocab_size"] = 2000; },
       {"engram_compressed_vocab_size is 2000"}},
      {"DraftsWithoutBlock", [](json& c) { text(c)["num_nextn_predict_layers"] = 3; }, {"dspark_block_size"}},
  };
}

class BrokenV41ConfigTest : public ::testing::TestWithParam<BrokenConfig> {};

TEST_P(BrokenV41ConfigTest, IsRefusedWithASentenceThatNamesTheKey) {
  json config = golden_config("v41-tiny");
  GetParam().edit(config);
  const std::string what = said_by([&] { parse_v41_config(config, "some/config.json"); });
  EXPECT_THAT(what, HasSubstr("some/config.json"));
  for (const std::string& said : GetParam().said) EXPECT_THAT(what, HasSubstr(said));
}

const auto kName = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Absurd, BrokenV41ConfigTest, ::testing::ValuesIn(absurd_values()), kName);
INSTANTIATE_TEST_SUITE_P(Unhonoured, BrokenV41ConfigTest, ::testing::ValuesIn(unhonoured_values()), kName);
INSTANTIATE_TEST_SUITE_P(Contradictory, BrokenV41ConfigTest, ::testing::ValuesIn(contradictions()), kName);

TEST(BrokenV41ConfigTest, EveryRequiredKeyIsMissedByName) {
  const json whole = golden_config("v41-tiny");
  const std::vector<std::string> optional = {"model_type",
                                             "num_key_value_heads",
                                             "attention_bias",
                                             "hidden_act",
                                             "tie_word_embeddings",
                                             "scoring_func",
                                             "topk_method",
                                             "norm_topk_prob",
                                             "rope_scaling",
                                             "candidate_source_layer_id",
                                             "candidate_topk_blocks",
                                             "candidate_block_size",
                                             "engram_layer_ids",
                                             "engram_num_embeddings",
                                             "engram_pad_token_id",
                                             "num_nextn_predict_layers"};
  int required = 0;
  for (const auto& [key, value] : whole["text_config"].items()) {
    if (std::find(optional.begin(), optional.end(), key) != optional.end()) continue;
    json config = whole;
    text(config).erase(key);
    EXPECT_THAT(said_by([&] { parse_v41_config(config, "config.json"); }),
                HasSubstr("'text_config." + key + "' is missing"));
    ++required;
  }
  EXPECT_GT(required, 25);
}

TEST(BrokenV41ConfigTest, AllProblemsAreReportedTogether) {
  json config = golden_config("v41-tiny");
  text(config)["hidden_size"] = -1;
  text(config)["hidden_act"] = "gelu";
  config["novelty"] = true;
  const Error error = error_of([&] { parse_v41_config(config, "config.json"); });
  EXPECT_EQ(error.problems().size(), 3U) << error.what();
}

TEST(V41ConfigTest, BothSpellingsAndOptionalKeysAreUnderstood) {
  json config = golden_config("v41-tiny");
  json& t = text(config);
  t["engram_pad_id"] = t["engram_pad_token_id"];
  t.erase("engram_pad_token_id");
  t["rope_scaling"]["type"] = "yarn";
  t["rope_scaling"].erase("rope_type");
  t["gate_temp"] = 2.0;
  for (const char* key : {"attention_bias", "tie_word_embeddings", "norm_topk_prob"}) t.erase(key);
  t["compress_ratios"].push_back(0);
  config["eos_token_id"] = {1, 7};
  const V41Config c = parse_v41_config(config, "config.json");
  EXPECT_EQ(c.engram_pad_token_id, 2);
  EXPECT_EQ(c.rope_scaling.kind, RopeScaling::Kind::kYarn);
  EXPECT_EQ(c.gate_temp, 2.0);
  EXPECT_TRUE(c.norm_topk_prob);
  EXPECT_EQ(c.compress_ratios.size(), 8U);
  EXPECT_THAT(c.eos_token_ids, ::testing::ElementsAre(1, 7));
}

TEST(V41ConfigTest, RolesOfTheLayersFollowTheSources) {
  const V41Config c = parse_v41_config(golden_config("v41-tiny"), "config.json");
  std::vector<std::int64_t> sources;
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) sources.push_back(c.kv_source_of(layer));
  EXPECT_THAT(sources, ::testing::ElementsAre(-1, -1, 2, 2, 2, 5, 5, 5));
  EXPECT_TRUE(c.is_index_source(4));
  EXPECT_FALSE(c.is_kv_source(4));
  EXPECT_TRUE(c.is_engram(1));
}

std::vector<BrokenConfig> broken_llamas() {
  return {
      {"AttentionBias", [](json& c) { c["attention_bias"] = true; }, {"'attention_bias'", "false"}},
      {"MlpBias", [](json& c) { c["mlp_bias"] = true; }, {"'mlp_bias'"}},
      {"OtherActivation", [](json& c) { c["hidden_act"] = "gelu_new"; }, {"'hidden_act'", "silu"}},
      {"HeadsDoNotDivide",
       [](json& c) { c["num_key_value_heads"] = 3; },
       {"num_key_value_heads = 3 does not divide"}},
      {"HeadDimOdd", [](json& c) { c["head_dim"] = 15; }, {"head_dim is 15"}},
      {"WidthNotDivisible",
       [](json& c) {
         c["num_attention_heads"] = c["num_key_value_heads"] = 5;
         c.erase("head_dim");
       },
       {"num_attention_heads = 5 does not divide"}},
      {"RopeDynamic",
       [](json& c) {
         c["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
       },
       {"'dynamic'"}},
      {"RopeWithoutType",
       [](json& c) {
         c["rope_scaling"] = {{"factor", 2.0}};
       },
       {"scaling of type ''"}},
      {"Llama3FactorsSwapped",
       [](json& c) {
         c["rope_scaling"] = {{"rope_type", "llama3"},
                              {"factor", 8.0},
                              {"low_freq_factor", 4.0},
                              {"high_freq_factor", 1.0},
                              {"original_max_position_embeddings", 8192}};
       },
       {"high_freq_factor must be larger"}},
      {"RopeTwice",
       [](json& c) {
         c["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
       },
       {"'rope_theta'", "rope_parameters is there"}},
      {"SlidingWindow",
       [](json& c) { c["sliding_window"] = 4096; },
       {"'sliding_window'", "knows how to honour"}},
      {"Quantized",
       [](json& c) {
         c["quantization_config"] = {{"quant_method", "gptq"}};
       },
       {"'quantization_config'", "knows how to honour"}},
      {"VocabMissing", [](json& c) { c.erase("vocab_size"); }, {"'vocab_size' is missing"}},
      {"OtherFamily", [](json& c) { c["model_type"] = "mistral"; }, {"'model_type'"}},
  };
}

class BrokenLlamaConfigTest : public ::testing::TestWithParam<BrokenConfig> {};

TEST_P(BrokenLlamaConfigTest, IsRefusedWithASentenceThatNamesTheKey) {
  json config = golden_config("llama-gqa-tiny");
  GetParam().edit(config);
  const std::string what = said_by([&] { parse_llama_config(config, "config.json"); });
  for (const std::string& said : GetParam().said) EXPECT_THAT(what, HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenLlamaConfigTest, ::testing::ValuesIn(broken_llamas()), kName);

std::vector<BrokenConfig> broken_v4s() {
  return {
      {"UnknownRatio",
       [](json& c) { c["compress_ratios"][1] = 8; },
       {"layer 1 has 8", "4 (CSA) and 128 (HCA)"}},
      {"DraftRatio",
       [](json& c) { c["compress_ratios"].push_back(4); },
       {"entry 3 belongs to a draft stage"}},
      {"RatiosTooFew",
       [](json& c) {
         c["compress_ratios"] = {0, 4};
       },
       {"2 entries for 3 layers"}},
      {"RowDoesNotDivide", [](json& c) { c["head_dim"] = 160; }, {"head_dim without qk_rope_head_dim is 96"}},
      {"IndexWidth", [](json& c) { c["index_head_dim"] = 96; }, {"index_head_dim is 96", "power of two"}},
      {"HashLayersTooMany", [](json& c) { c["num_hash_layers"] = 4; }, {"num_hash_layers is 4 of 3"}},
      {"OtherBlockSize",
       [](json& c) {
         c["quantization_config"]["weight_block_size"] = {32, 32};
       },
       {"[128, 128]"}},
      {"OtherExperts", [](json& c) { c["expert_dtype"] = "fp8"; }, {"'expert_dtype'", "\"fp8\""}},
      {"NoQuantization",
       [](json& c) { c.erase("quantization_config"); },
       {"'quantization_config' is missing"}},
      {"DraftsWithoutTargets",
       [](json& c) {
         c["dspark_block_size"] = 5;
         c["dspark_markov_rank"] = 8;
       },
       {"dspark_target_layer_ids"}},
      {"UnknownKey",
       [](json& c) { c["engram_layer_ids"] = {1}; },
       {"'engram_layer_ids'", "knows how to honour"}},
      {"HiddenMissing", [](json& c) { c.erase("hidden_size"); }, {"'hidden_size' is missing"}},
  };
}

class BrokenV4ConfigTest : public ::testing::TestWithParam<BrokenConfig> {};

TEST_P(BrokenV4ConfigTest, IsRefusedWithASentenceThatNamesTheKey) {
  json config = golden_config("v4-tiny");
  GetParam().edit(config);
  const std::string what = said_by([&] { parse_v4_config(config, "config.json"); });
  for (const std::string& said : GetParam().said) EXPECT_THAT(what, HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenV4ConfigTest, ::testing::ValuesIn(broken_v4s()), kName);

std::vector<BrokenConfig> broken_v3s() {
  return {
      {"OtherScoring", [](json& c) { c["scoring_func"] = "softmax"; }, {"'scoring_func'", "\"sigmoid\""}},
      {"OtherMethod", [](json& c) { c["topk_method"] = "greedy"; }, {"'topk_method'", "\"noaux_tc\""}},
      {"GroupsDoNotDivide", [](json& c) { c["n_group"] = 3; }, {"n_group = 3 does not divide"}},
      {"MoreGroupsThanThereAre", [](json& c) { c["topk_group"] = 5; }, {"topk_group is 5"}},
      {"GroupsTooSmall",
       [](json& c) { c["num_experts_per_tok"] = 5; },
       {"num_experts_per_tok is 5", "2 groups of 2"}},
      {"GroupsOfOne",
       [](json& c) {
         c["n_group"] = 8;
         c["topk_group"] = 8;
       },
       {"no two best"}},
      {"DenseLayersTooMany",
       [](json& c) { c["first_k_dense_replace"] = 4; },
       {"first_k_dense_replace is 4 of 3"}},
      {"SparseEverySecondLayer", [](json& c) { c["moe_layer_freq"] = 2; }, {"'moe_layer_freq'"}},
      {"GroupedHeads", [](json& c) { c["num_key_value_heads"] = 2; }, {"'num_key_value_heads'"}},
      {"AttentionBias", [](json& c) { c["attention_bias"] = true; }, {"'attention_bias'"}},
      {"StaticScales",
       [](json& c) {
         c["quantization_config"] = {
             {"quant_method", "fp8"}, {"activation_scheme", "static"}, {"weight_block_size", {128, 128}}};
       },
       {"'quantization_config.activation_scheme'"}},
      {"IndexerInV3", [](json& c) { c["index_topk"] = 8; }, {"'index_topk'", "knows how to honour"}},
      {"IndexerMissing", [](json& c) { c["model_type"] = "deepseek_v32"; }, {"'index_topk' is missing"}},
      {"NormalisedV2", [](json& c) { c["model_type"] = "deepseek_v2"; }, {"'norm_topk_prob'", "deepseek_v2"}},
      {"OtherFamily", [](json& c) { c["model_type"] = "deepseek_v5"; }, {"'model_type'", "deepseek_v5"}},
  };
}

class BrokenV3ConfigTest : public ::testing::TestWithParam<BrokenConfig> {};

TEST_P(BrokenV3ConfigTest, IsRefusedWithASentenceThatNamesTheKey) {
  json config = golden_config("v3-tiny");
  GetParam().edit(config);
  const std::string what = said_by([&] { parse_mla_config(config, "config.json"); });
  for (const std::string& said : GetParam().said) EXPECT_THAT(what, HasSubstr(said));
}

INSTANTIATE_TEST_SUITE_P(All, BrokenV3ConfigTest, ::testing::ValuesIn(broken_v3s()), kName);

TEST(MlaConfigTest, GenerationsDifferInRoutingAndScales) {
  const auto parsed = [](const char* model) { return parse_mla_config(golden_config(model), model); };
  EXPECT_EQ(parsed("v2lite-tiny").routing, MlaConfig::Routing::kGreedy);
  EXPECT_EQ(parsed("v2lite-tiny").q_lora_rank, 0);
  EXPECT_EQ(parsed("v2-tiny").routing, MlaConfig::Routing::kGroupMaximum);
  EXPECT_EQ(parsed("v2-tiny").rope_scaling.mscale_all_dim, 1.0);
  EXPECT_EQ(parsed("v3-tiny").routing, MlaConfig::Routing::kGroupTopTwo);
  EXPECT_FALSE(parsed("v32-tiny").fp8);
  EXPECT_FALSE(parsed("v32-tiny").pow2_scales);
  EXPECT_TRUE(parsed("v32-tiny-fp8").fp8);
  EXPECT_TRUE(parsed("v32-tiny-fp8").pow2_scales);
}

TEST(LlamaConfigTest, EveryKindOfRopeScalingIsRead) {
  json config = golden_config("llama-mha-tiny");
  EXPECT_EQ(parse_llama_config(config, "c").rope_scaling.kind, RopeScaling::Kind::kNone);
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  EXPECT_EQ(parse_llama_config(config, "c").rope_scaling.kind, RopeScaling::Kind::kLinear);
  config["rope_scaling"] = {
      {"rope_type", "yarn"}, {"factor", 8.0}, {"original_max_position_embeddings", 4096}};
  EXPECT_EQ(parse_llama_config(config, "c").rope_scaling.original_context, 4096);
  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "llama3"},   {"rope_theta", 5e5},
                               {"factor", 8.0},           {"low_freq_factor", 1.0},
                               {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  const LlamaConfig c = parse_llama_config(config, "c");
  EXPECT_EQ(c.rope_scaling.kind, RopeScaling::Kind::kLlama3);
  EXPECT_EQ(c.rope_theta, 5e5);
  EXPECT_EQ(c.head_dim, 16);
}

TEST(ConfigFileTest, DamagedFilesAreRefusedByName) {
  const TempFolder folder;
  const fs::path path = folder.path() / "config.json";
  const auto said = [&](const std::string& bytes) {
    write_bytes(path, bytes);
    return said_by([&] { read_config_file(path.string()); });
  };
  EXPECT_THAT(said(""), HasSubstr("config.json: is not JSON"));
  EXPECT_THAT(said("{\"a\": 1"), HasSubstr("config.json: is not JSON"));
  EXPECT_THAT(said("{\"a\": 1, \"a\": 2}"), HasSubstr("names key 'a' twice"));
  EXPECT_THAT(said("{\"a\": {\"b\": 1, \"b\": 2}}"), HasSubstr("names key 'b' twice"));
  EXPECT_THAT(said(std::string(1000, '[') + std::string(1000, ']')), HasSubstr("nested deeper"));
  EXPECT_THAT(said(std::string(5'000'000, ' ')), HasSubstr("5000000 bytes long"));
  EXPECT_EQ(error_of([&] { read_config_file((folder.path() / "none.json").string()); }).code(),
            ErrorCode::kNotFound);
}

}  // namespace
}  // namespace seekline::testing
