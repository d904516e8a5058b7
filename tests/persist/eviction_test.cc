// A store stays within its limit, and gives up first what was used longest ago.
#include <thread>

#include "persist/environment.h"
#include "persist/evict.h"
#include "persist/maintenance.h"
#include "persist/store_fixture.h"
#include "persist/stored_record.h"

namespace seekline::persist_test {
namespace {

using Tokens = std::vector<std::int32_t>;

std::int64_t live_bytes(const fs::path& folder) { return store_figures(folder).live_bytes; }

TEST(Eviction, KeepsAStoreWithinItsLimitForever) {
  const TempFolder folder;
  constexpr std::int64_t kLimit = 2 << 20;
  Bench bench(folder.path(), small_plan(), "model", kLimit);
  std::int64_t largest_file = 0;
  for (unsigned i = 0; i < 60; ++i) {
    const Tokens tokens = random_tokens(1000 + i * 37 % 900, i);
    bench.put(tokens, SnapshotPart::kAll);
    EXPECT_LE(live_bytes(folder.path()), kLimit) << i;
    EXPECT_EQ(bench.reusable(tokens), static_cast<std::int64_t>(tokens.size()))
        << "the newest is there: " << i;
    largest_file = std::max(largest_file, store_figures(folder.path()).file_bytes);
  }
  EXPECT_GT(bench.store->stats().write.blocks_evicted, 0);
  EXPECT_EQ(bench.store->stats().write.jobs_failed, 0);
  EXPECT_LE(largest_file, 2 * kLimit);
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
}

TEST(Eviction, TakesLeavesInOrderOfTheirLastUse) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens system = random_tokens(512, 100);
  std::vector<Tokens> chats;
  for (unsigned i = 0; i < 4; ++i) {
    chats.push_back(system);
    const Tokens own = random_tokens(512, 101 + i);
    chats.back().insert(chats.back().end(), own.begin(), own.end());
    bench.put(chats.back());
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  EXPECT_EQ(bench.reusable(chats[0]), 1024);  // used again: the others are older now
  bench.store->flush();
  const auto env = Environment::open(folder.path(), {});
  const auto shrink = [&] {
    WriteTxn txn(*env);
    evict(txn, txn.live_bytes() - 1);
    txn.commit();
  };
  const auto left = [&](unsigned i) { return bench.store->lookup(chats[i]).length(); };
  shrink();
  EXPECT_EQ(left(1), 768);
  shrink();
  EXPECT_EQ(left(1), 512);
  EXPECT_EQ(left(2), 1024);
  EXPECT_EQ(left(3), 1024);
  EXPECT_EQ(left(0), 1024);
  {
    WriteTxn txn(*env);
    evict(txn, 1);
    txn.commit();
  }
  EXPECT_EQ(left(0), 0);
  EXPECT_EQ(store_figures(folder.path()).blocks, 0);
}

TEST(Eviction, SnapshotsGoBeforeRows) {
  const TempFolder folder;
  Bench bench(folder.path(), flash_plan());
  const Tokens tokens = random_tokens(1024, 200);
  for (const std::size_t at : {256, 512, 768, 1024}) {
    bench.put(std::span(tokens).first(at), SnapshotPart::kAll);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  }
  const auto env = Environment::open(folder.path(), {});
  WriteTxn txn(*env);
  const Evicted evicted = evict(txn, txn.live_bytes() - 1);
  txn.commit();
  EXPECT_EQ(evicted.snapshots, 1);
  EXPECT_EQ(evicted.blocks, 0);
  EXPECT_EQ(bench.store->lookup(std::span(tokens).first(300)).snapshot_position(), 0) << "the oldest went";
  EXPECT_EQ(bench.store->lookup(tokens).snapshot_position(), 1024);
}

TEST(Eviction, AnEvictedBlockTakesItsSnapshotsAlong) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(300, 201);
  bench.put(std::span(tokens).first(100), SnapshotPart::kAll);
  bench.put(tokens, SnapshotPart::kAll);
  const auto env = Environment::open(folder.path(), {});
  WriteTxn txn(*env);
  evict(txn, 1);
  txn.commit();
  const StoreFigures figures = store_figures(folder.path());
  EXPECT_EQ(figures.blocks, 0);
  EXPECT_EQ(figures.snapshots, 0);
}

TEST(Maintenance, ListsModelsAndPrefixes) {
  const TempFolder folder;
  Bench a(folder.path(), small_plan(), "a"), b(folder.path(), small_plan(), "b");
  a.put(random_tokens(700, 300), SnapshotPart::kAll);
  a.put(random_tokens(100, 301));
  b.put(random_tokens(300, 302));
  const std::vector<StoreModel> models = list_models(folder.path());
  ASSERT_EQ(models.size(), 2u);
  const StoreModel& of_a = models[0].fingerprint == a.store->fingerprint() ? models[0] : models[1];
  EXPECT_EQ(of_a.fingerprint, a.store->fingerprint());
  EXPECT_EQ(of_a.chains, 2);
  EXPECT_EQ(of_a.blocks, 4);
  EXPECT_EQ(of_a.tokens, 800);
  EXPECT_EQ(of_a.longest_tokens, 700);
  EXPECT_EQ(of_a.snapshots, 1);
  const std::vector<StoreChain> chains =
      list_chains(folder.path(), a.store->fingerprint().hex().substr(0, 8));
  ASSERT_EQ(chains.size(), 2u);
  const StoreChain& longest = chains[0].tokens == 700 ? chains[0] : chains[1];
  EXPECT_EQ(longest.tokens, 700);
  EXPECT_EQ(longest.snapshots, std::vector<std::int64_t>{700});
}

TEST(Maintenance, RemovesAModelOrAPrefixFromABlockOn) {
  const TempFolder folder;
  Bench a(folder.path(), small_plan(), "a"), b(folder.path(), small_plan(), "b");
  const Tokens tokens = random_tokens(1000, 303);
  a.put(tokens, SnapshotPart::kAll);
  b.put(tokens);
  const Key first = Place(a.store->fingerprint(), std::span(tokens).first(256)).chain_key();
  const Key second = Place(first, std::span(tokens).subspan(256, 256)).chain_key();
  EXPECT_EQ(remove_from_store(folder.path(), second.hex().substr(0, 12)), 4);
  EXPECT_EQ(a.reusable(tokens), 256);
  EXPECT_EQ(b.reusable(tokens), 1000);
  EXPECT_EQ(remove_from_store(folder.path(), a.store->fingerprint().hex()), 1);
  EXPECT_EQ(a.reusable(tokens), 0);
  EXPECT_EQ(b.reusable(tokens), 1000);
  EXPECT_THROW(remove_from_store(folder.path(), "zz"), Error);
  EXPECT_THROW(remove_from_store(folder.path(), ""), Error);
}

TEST(Maintenance, TidyingErasesWhatNothingLeadsTo) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(1000, 304);
  bench.put(tokens, SnapshotPart::kAll);
  {
    const auto env = Environment::open(folder.path(), {});
    WriteTxn txn(*env);
    erase_record(txn, RecordKind::kBlock,
                 Place(bench.store->fingerprint(), std::span(tokens).first(256)).bytes());
    txn.commit();
  }
  EXPECT_FALSE(verify_store(folder.path(), false).problems.empty());
  const StoreTidied tidied = tidy_store(folder.path(), std::nullopt);
  EXPECT_EQ(tidied.unreachable_blocks, 3);
  EXPECT_EQ(tidied.unreachable_snapshots, 1);
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
  bench.put(tokens);
  EXPECT_EQ(bench.reusable(tokens), 1000);
  tidy_store(folder.path(), 1);
  EXPECT_EQ(bench.reusable(tokens), 0);
}

TEST(Maintenance, VerifyingAndErasingLeavesWhatIsSound) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens a = random_tokens(600, 305), b = random_tokens(600, 306);
  bench.put(a);
  bench.put(b);
  const Place place(bench.store->fingerprint(), std::span(b).first(256));
  {
    const auto env = Environment::open(folder.path(), {});
    WriteTxn txn(*env);
    const Bytes there = *txn.get(Table::kBlocks, place.bytes());
    std::vector<std::uint8_t> bytes(there.begin(), there.end());
    bytes[5000] ^= 4;
    txn.put(Table::kBlocks, place.bytes(), bytes);
    txn.commit();
  }
  const StoreCheck check = verify_store(folder.path(), true);
  EXPECT_EQ(check.problems.size(), 1u);
  EXPECT_EQ(check.erased, 1);
  EXPECT_EQ(check.blocks, 5);
  EXPECT_EQ(bench.reusable(a), 600);
  EXPECT_EQ(bench.reusable(b), 0);
  EXPECT_FALSE(verify_store(folder.path(), false).problems.empty())
      << "blocks that continue it are left for gc";
  tidy_store(folder.path(), std::nullopt);
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
}

}  // namespace
}  // namespace seekline::persist_test
