// The released geometry's numbers come out of the plan (docs/cache-plan.md has their arithmetic).
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/presets.h"
#include "model/network.h"

namespace seekline {
namespace {

TEST(CachePlan, V41FlashStoresAndReadsWhatIsPublished) {
  const CachePlan plan = plan_of_config(preset_config("v41-flash"), "preset v41-flash", Rows::kDeployed);
  EXPECT_EQ(plan.stored_bytes_per_token(), 890);
  EXPECT_EQ(plan.window_bytes(), 2703360);
  const std::int64_t n = 131072;
  const Reads reads = plan.reads(n);
  EXPECT_EQ(reads.main, 38 * 512 * 288);
  EXPECT_EQ(reads.window, 40 * 128 * 528);
  EXPECT_EQ(reads.index_key, (3 * n / 2 + n + 4 * 16384) * 68);
  EXPECT_EQ(reads.total(), 35045376);
  EXPECT_EQ(plan.first_decoder_layer(), 20);
}

TEST(CachePlan, V41FlashInBF16) {
  const CachePlan plan = plan_of_config(preset_config("v41-flash"), "preset v41-flash", Rows::kBF16);
  EXPECT_EQ(plan.stored_bytes_per_token(), 3200);
  const std::int64_t n = 131072;
  EXPECT_EQ(plan.reads(n).total(), (38 * 512 + 40 * 128) * 1024 + (3 * n / 2 + n + 4 * 16384) * 256);
}

TEST(CachePlan, ShortContextsReadWhatIsThere) {
  const CachePlan plan = plan_of_config(preset_config("v41-flash"), "preset v41-flash", Rows::kDeployed);
  EXPECT_EQ(plan.layer_reads(0, 1).window, 528);
  EXPECT_EQ(plan.layer_reads(2, 1).main, 0);  // no finished group of two
  EXPECT_EQ(plan.layer_reads(2, 2).main, 288);
  EXPECT_EQ(plan.layer_reads(20, 1).main, 288);
  EXPECT_EQ(plan.layer_reads(24, 16385).index_key, (2047 * 8 + 1) * 68);  // the newest block is partly filled
}

}  // namespace
}  // namespace seekline
