// What V2, V3 and V3.2 store and read at their released geometries comes out of their plans.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "checkpoint/presets.h"
#include "model/network.h"
#include "seekline/error.h"

namespace seekline {
namespace {

CachePlan plan_of(const std::string& preset, Rows rows) {
  return plan_of_config(preset_config(preset), "preset " + preset, rows);
}

constexpr std::int64_t kContext = 131072;

TEST(CachePlan, V2StoresLatentAndRotaryKeyOnly) {
  EXPECT_EQ(plan_of("v2", Rows::kDeployed).stored_bytes_per_token(), 69120);
  EXPECT_EQ(plan_of("v2", Rows::kDeployed).reads(kContext).total(), 60 * kContext * 1152);
  EXPECT_EQ(plan_of("v2", Rows::kFp8).stored_bytes_per_token(), 60 * 656);
}

TEST(CachePlan, V3ReadsEveryRowOfEveryLayer) {
  const CachePlan plan = plan_of("v3", Rows::kDeployed);
  EXPECT_EQ(plan.stored_bytes_per_token(), 70272);
  EXPECT_EQ(plan.reads(kContext).main, 61 * kContext * 1152);
  EXPECT_EQ(plan.reads(kContext).index_key, 0);
}

TEST(CachePlan, V32ReadsItsSelectionAndScansItsKeys) {
  const CachePlan plan = plan_of("v32", Rows::kDeployed);
  EXPECT_EQ(plan.stored_bytes_per_token(), 48068);
  EXPECT_EQ(plan.reads(kContext).main, 61 * 2048 * 656);
  EXPECT_EQ(plan.reads(kContext).index_key, 61 * kContext * 132);
  EXPECT_EQ(plan.reads(100).main, 61 * 100 * 656);
  EXPECT_EQ(plan.window_bytes() + plan.tail_bytes(), 0);
}

TEST(CachePlan, V32InBF16) {
  const CachePlan plan = plan_of("v32", Rows::kBF16);
  EXPECT_EQ(plan.stored_bytes_per_token(), 85888);
  EXPECT_EQ(plan.reads(kContext).total(), 61 * (2048 * 1152 + kContext * 256));
}

TEST(CachePlan, OtherFamiliesRefuseFp8Rows) { EXPECT_THROW(plan_of("v41-flash", Rows::kFp8), Error); }

}  // namespace
}  // namespace seekline
