// Every published number of the generations comes out of their cache plans (docs/generations.md has the
// arithmetic).
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "checkpoint/presets.h"
#include "model/network.h"
#include "seekline/accounting.h"

namespace seekline {
namespace {

constexpr std::int64_t kContext = 131072;

CachePlan plan_of(const std::string& preset, Rows rows = Rows::kDeployed) {
  return plan_of_config(preset_config(preset), "preset " + preset, rows);
}

TEST(Accounting, MhaAtTheSizeOfV2) {
  const CachePlan plan = plan_of("mha-v2size");
  EXPECT_EQ(plan.stored_bytes_per_token(), 60 * 128 * (128 + 128) * 2);
  EXPECT_EQ(plan.stored_bytes_per_token(), 3'932'160);
  EXPECT_EQ(plan.reads(kContext).total(), 3'932'160 * kContext);  // 515.4 GB
  EXPECT_EQ(plan.reads(kContext).index_key, 0);
}

TEST(Accounting, V1StoresEightHeads) {
  const CachePlan plan = plan_of("v1-67b");
  EXPECT_EQ(plan.stored_bytes_per_token(), 389'120);
  EXPECT_EQ(plan.reads(kContext).total(), 389'120 * kContext);  // 51.0 GB
}

TEST(Accounting, V2AndV3StoreOneLatent) {
  EXPECT_EQ(plan_of("v2").stored_bytes_per_token(), 60 * (512 + 64) * 2);
  EXPECT_EQ(plan_of("v2").stored_bytes_per_token(), 69'120);
  EXPECT_EQ(plan_of("v2").reads(kContext).total(), 69'120 * kContext);  // 9.06 GB
  EXPECT_EQ(plan_of("v3").stored_bytes_per_token(), 70'272);
  EXPECT_EQ(plan_of("v3").reads(kContext).total(), 70'272 * kContext);  // 9.21 GB
}

TEST(Accounting, V32ReadsSelectedRowsAndEveryKey) {
  const CachePlan plan = plan_of("v32");
  EXPECT_EQ(plan.stored_bytes_per_token(), 48'068);
  const Reads reads = plan.reads(kContext);
  EXPECT_EQ(reads.main, 61 * 2048 * 656);
  EXPECT_EQ(reads.index_key, 61 * kContext * 132);
  EXPECT_NEAR(static_cast<double>(reads.total()), 1.137e9, 0.5e6);
  EXPECT_NEAR(static_cast<double>(reads.index_key), 1.055e9, 0.5e6);
}

TEST(Accounting, V32InBF16) {
  const CachePlan plan = plan_of("v32", Rows::kBF16);
  EXPECT_EQ(plan.stored_bytes_per_token(), 85'888);
  EXPECT_EQ(plan.reads(kContext).total(), 61 * 2048 * 1152 + 61 * kContext * 256);
}

TEST(Accounting, V4Flash) {
  for (const char* preset : {"v4-flash", "v4-flash-preview"}) {
    const CachePlan plan = plan_of(preset);
    EXPECT_EQ(plan.stored_bytes_per_token(), 3'514.25);
    EXPECT_EQ(plan.window_bytes(), 3'214'336);
    const Reads reads = plan.reads(kContext);
    EXPECT_EQ(reads.main, (21 * 512 + 20 * kContext / 128) * 584);
    EXPECT_EQ(reads.window, 43 * 128 * 584);
    EXPECT_EQ(reads.index_key, 21 * kContext / 4 * 68);
    EXPECT_EQ(reads.total(),
              (21 * (512 + 128) + 20 * (kContext / 128 + 128) + 2 * 128) * 584 + 21 * kContext / 4 * 68);
    EXPECT_NEAR(static_cast<double>(reads.total()), 68.2e6, 0.05e6);
    EXPECT_NEAR(static_cast<double>(reads.index_key), 46.8e6, 0.05e6);
  }
}

TEST(Accounting, V4FlashInBF16) {
  const CachePlan plan = plan_of("v4-flash", Rows::kBF16);
  EXPECT_EQ(plan.stored_bytes_per_token(), 6'880);
  EXPECT_EQ(plan.reads(kContext).total(),
            (21 * 512 + 20 * kContext / 128 + 43 * 128) * 1024 + 21 * kContext / 4 * 256);
}

TEST(Accounting, V41Flash) {
  const CachePlan plan = plan_of("v41-flash");
  EXPECT_EQ(plan.stored_bytes_per_token(), 890);
  EXPECT_EQ(plan.window_bytes(), 2'703'360);
  EXPECT_EQ(plan.reads(kContext).total(), 35'045'376);  // 35.05 MB
  EXPECT_NEAR(static_cast<double>(plan.reads(kContext).index_key), 26.7e6, 0.05e6);
  EXPECT_EQ(plan_of("v41-flash", Rows::kBF16).stored_bytes_per_token(), 3'200);
}

TEST(Accounting, RatiosToMha) {
  const double mha = plan_of("mha-v2size").stored_bytes_per_token();
  const auto ratio = [&](const char* preset) { return mha / plan_of(preset).stored_bytes_per_token(); };
  EXPECT_NEAR(ratio("v2"), 57, 0.5);
  EXPECT_NEAR(ratio("v32"), 82, 0.5);
  EXPECT_NEAR(ratio("v4-flash"), 1119, 0.5);
  EXPECT_NEAR(ratio("v41-flash"), 4418, 0.5);
  EXPECT_NEAR(plan_of("v1-67b").stored_bytes_per_token() / plan_of("v41-flash").stored_bytes_per_token(), 437,
              0.5);
}

TEST(Accounting, WindowsAndGrowingRowsMeet) {
  EXPECT_EQ(window_crossover(plan_of("v4-flash")), 915);
  EXPECT_EQ(window_crossover(plan_of("v41-flash")), 3038);
  EXPECT_EQ(window_crossover(plan_of("v2")), 0);
}

TEST(Accounting, ALaterGenerationIsSmallerFromSomeContextOn) {
  const CachePlan v4 = plan_of("v4-flash"), v41 = plan_of("v41-flash"), v32 = plan_of("v32");
  for (const auto& [later, earlier] : {std::pair{&v4, &v32}, {&v41, &v4}, {&v41, &v32}}) {
    const std::int64_t from = smaller_from(*later, *earlier);
    ASSERT_GE(from, 1);
    if (from > 1) {
      EXPECT_GT(cache_bytes(*later, from - 1), cache_bytes(*earlier, from - 1));
    }
    for (std::int64_t tokens = from; tokens < from + 3000; ++tokens)
      ASSERT_LE(cache_bytes(*later, tokens), cache_bytes(*earlier, tokens)) << tokens;
  }
  EXPECT_EQ(smaller_from(v32, v4), -1);
}

// 2 x 32 layers x 32,768 tokens x 32 heads x 128 x 2 bytes.
TEST(Accounting, AGqaModelWithAsManyKvHeadsAsQueryHeads) {
  nlohmann::json config = preset_config("llama-8b");
  config["num_key_value_heads"] = 32;
  const CachePlan plan = plan_of_config(config, "example", Rows::kDeployed);
  EXPECT_EQ(cache_bytes(plan, 32'768), 17'179'869'184);
}

TEST(Accounting, SharingOfMainStores) {
  const Sharing v41 = sharing(plan_of("v41-flash"));
  EXPECT_EQ(v41.owners, 4);
  EXPECT_EQ(v41.readers, 38);
  EXPECT_EQ(v41.stored, 288 * 2.5);
  EXPECT_EQ(v41.layer_own, 38 * 288);
  const Sharing v2 = sharing(plan_of("v2"));
  EXPECT_EQ(v2.owners, v2.readers);
  EXPECT_EQ(v2.stored, v2.layer_own);
}

TEST(Accounting, ThePoolBoundsTheSearchOfLaterLayers) {
  const SearchWork work = search_work(plan_of("v41-flash"), kContext);
  EXPECT_EQ(work.without_pool, 3 * kContext / 2 + (4 + 1) * kContext);
  EXPECT_EQ(work.scored, 3 * kContext / 2 + kContext + 4 * std::min<std::int64_t>(kContext, 2048 * 8));
  const SearchWork v32 = search_work(plan_of("v32"), kContext);
  EXPECT_EQ(v32.scored, 61 * kContext);
  EXPECT_EQ(v32.scored, v32.without_pool);
}

TEST(Accounting, CedRunsTheDecoderOnOneWindow) {
  const PrefillWork work = prefill_work(plan_of("v41-flash"), kContext);
  EXPECT_EQ(work.all, 40 * kContext);
  EXPECT_EQ(work.decoder_last, 20 * kContext + 20 * 128);
  EXPECT_EQ(prefill_work(plan_of("v41-flash"), 100).decoder_last, 40 * 100);
  EXPECT_EQ(prefill_work(plan_of("v4-flash"), kContext).decoder_last, 43 * kContext);
}

TEST(Accounting, WorkIsWeighedByThePrecisionOfRows) {
  const DecodeWork v41 = decode_work(plan_of("v41-flash"), kContext);
  EXPECT_EQ(v41.main.operations, 38.0 * 512 * 64 * (512 + 512));
  EXPECT_EQ(v41.main.weighted, v41.main.operations / 4);  // fp4, RoPE tail included
  EXPECT_EQ(v41.window.operations, 40.0 * 128 * 64 * (512 + 512));
  EXPECT_EQ(v41.window.weighted, v41.window.operations / 2);  // fp8
  EXPECT_EQ(v41.index_key.operations,
            static_cast<double>(search_work(plan_of("v41-flash"), kContext).scored) * 32 * 128);
  EXPECT_EQ(v41.index_key.weighted, v41.index_key.operations / 4);
  const DecodeWork v4 = decode_work(plan_of("v4-flash"), kContext);
  EXPECT_EQ(v4.window.operations, 43.0 * 128 * 64 * (512 + 512));
  EXPECT_EQ(v4.window.weighted, 43.0 * 128 * 64 * 2 * (448 * 0.5 + 64));
  const DecodeWork v2 = decode_work(plan_of("v2"), kContext);
  EXPECT_EQ(v2.main.operations, 60.0 * kContext * 128 * (576 + 512));
  EXPECT_EQ(v2.main.weighted, v2.main.operations);
  const DecodeWork mha = decode_work(plan_of("mha-v2size"), kContext);
  EXPECT_EQ(mha.total().operations, 60.0 * kContext * 128 * (128 + 128));
}

}  // namespace
}  // namespace seekline
