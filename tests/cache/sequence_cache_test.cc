#include "cache/sequence_cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "seekline/error.h"

namespace seekline {
namespace {

// One growing store of m = 2 and one ring of 4.
CachePlan small_plan() {
  CachePlan plan;
  plan.model = "test";
  plan.layers.resize(1);
  plan.stores.push_back({0, 0, StoreKind::kMain, {RowKind::kV41Fp4, 64}, 2, 0, "layer 0 main"});
  plan.stores.push_back({1, 0, StoreKind::kWindow, {RowKind::kV41Fp8, 64}, 1, 4, "layer 0 window"});
  return plan;
}

TEST(SequenceCache, PagesAreExactlyRowsTimesRowBytesWithDataBeforeScales) {
  PagePool pool(small_plan());
  SequenceCache cache(pool);
  cache.reserve(600);
  EXPECT_EQ(pool.page_bytes(0), 128 * 36);
  EXPECT_EQ(cache.allocated_bytes(0), 3 * 128 * 36);
  const RowRef first = cache.row(0, 128), second = cache.row(0, 129);
  EXPECT_EQ(second.data - first.data, 32);
  EXPECT_EQ(second.scale - first.scale, 4);
  EXPECT_EQ(first.scale - first.data, 128 * 32);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data) % 64, 0u);
  const PageRows rest = cache.page_rows(0, 200, 1000);
  EXPECT_EQ(rest.rows, 56);
}

TEST(SequenceCache, RingKeepsTheNewestPositions) {
  PagePool pool(small_plan());
  SequenceCache cache(pool);
  for (std::uint8_t p = 0; p < 10; ++p) std::memset(cache.mutable_ring_row(1, p).data, p, 64);
  for (std::int64_t p = 6; p < 10; ++p) EXPECT_EQ(cache.ring_row(1, p).data[5], p);
}

TEST(SequenceCache, AFullPoolIsRefusedAndLeavesNoTrace) {
  PagePool pool(small_plan(), 3 * 128 * 36);
  SequenceCache a(pool), b(pool);
  a.reserve(512);
  EXPECT_THROW(b.reserve(513), Error);
  EXPECT_EQ(b.allocated_bytes(0), 0);
  b.reserve(256);
  EXPECT_EQ(pool.used_bytes(), 3 * 128 * 36);
}

TEST(PagePool, RefusesGroupsThatDoNotFillPages) {
  CachePlan plan = small_plan();
  plan.stores[0].tokens_per_row = 3;
  EXPECT_THROW(PagePool{plan}, Error);
}

TEST(Ledger, CountsRowsInBytesByLayerAndKind) {
  const CachePlan plan = small_plan();
  Ledger ledger(plan);
  ledger.read(0, 0, 3);
  ledger.read(0, 1, 2);
  ledger.wrote(1, 1);
  EXPECT_EQ(ledger.layer_reads(0).main, 3 * 36);
  EXPECT_EQ(ledger.layer_reads(0).window, 2 * 66);
  EXPECT_EQ(ledger.bytes_written(1), 66);
  ledger.reset();
  EXPECT_EQ(ledger.layer_reads(0).total(), 0);
}

}  // namespace
}  // namespace seekline
