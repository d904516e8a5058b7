// Prefixes are stored, found by tokens, and restored bit for bit.
#include <chrono>
#include <thread>

#include "core/step_activity.h"
#include "persist/maintenance.h"
#include "persist/store_fixture.h"

namespace seekline::persist_test {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens joined(const Tokens& a, const Tokens& b) {
  Tokens both = a;
  both.insert(both.end(), b.begin(), b.end());
  return both;
}

Tokens first_of(const Tokens& tokens, std::size_t count) {
  return {tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count)};
}

TEST(PrefixStore, RestoresEveryLengthOfWhatWasStored) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(700, 1);
  EXPECT_EQ(bench.put(tokens).blocks_queued, 2);
  const PrefixHit hit = bench.store->lookup(tokens);
  EXPECT_EQ(hit.length(), 700);
  EXPECT_EQ(hit.why_not_more(), "");
  for (const std::int64_t length : {1, 2, 3, 127, 128, 129, 255, 256, 257, 511, 512, 513, 699, 700}) {
    SequenceCache cache(bench.pool);
    EXPECT_EQ(bench.store->restore(hit, length, cache).length, length);
    expect_right_rows(bench.pool, cache);
  }
}

TEST(PrefixStore, GoesOnFromWhateverACacheHoldsAlready) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(600, 2);
  bench.put(tokens);
  const PrefixHit hit = bench.store->lookup(tokens);
  for (const std::size_t there : {1, 2, 100, 255, 256, 300, 599}) {
    Sequence sequence(bench.pool);
    sequence.append(first_of(tokens, there));
    EXPECT_EQ(bench.store->restore(hit, 600, sequence.cache).length, 600);
    expect_right_rows(bench.pool, sequence.cache);
  }
}

TEST(PrefixStore, AShortPromptIsReusedToo) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens prompt = random_tokens(50, 3);
  bench.put(prompt);
  EXPECT_EQ(bench.reusable(prompt), 50);
  EXPECT_EQ(bench.reusable(joined(prompt, random_tokens(400, 4))), 50);
}

TEST(PrefixStore, ReusesUpToTheFirstTokenThatDiffers) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(600, 5);
  bench.put(tokens);
  for (const std::size_t cut : {1u, 5u, 15u, 16u, 17u, 100u, 255u, 256u, 257u, 400u, 512u, 599u}) {
    Tokens changed = first_of(tokens, cut);
    changed.push_back(tokens[cut] + 1);
    changed = joined(changed, random_tokens(50, 6));
    const PrefixHit hit = bench.store->lookup(changed);
    EXPECT_EQ(hit.length(), static_cast<std::int64_t>(cut));
    EXPECT_NE(hit.why_not_more(), "");
    EXPECT_EQ(bench.reusable(changed), static_cast<std::int64_t>(cut));
  }
}

TEST(PrefixStore, FindsTheNearestOfManySiblings) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens system = random_tokens(40, 7);
  for (unsigned i = 0; i < 40; ++i)
    bench.put(joined(joined(system, Tokens{static_cast<std::int32_t>(i)}), random_tokens(100, 100 + i)));
  for (unsigned i = 0; i < 40; ++i) {
    Tokens asked = first_of(
        joined(joined(system, Tokens{static_cast<std::int32_t>(i)}), random_tokens(100, 100 + i)), 120);
    asked.push_back(5000);
    EXPECT_EQ(bench.reusable(asked), 120) << i;
  }
}

TEST(PrefixStore, APartialBlockIsReplacedAsItGrows) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(300, 8);
  for (const std::size_t length : {10, 50, 51, 200, 255}) {
    bench.put(first_of(tokens, length));
    EXPECT_EQ(store_figures(folder.path()).blocks, 1) << length;
    EXPECT_EQ(bench.reusable(tokens), static_cast<std::int64_t>(length));
  }
  bench.put(tokens);
  EXPECT_EQ(store_figures(folder.path()).blocks, 2);
  bench.put(first_of(tokens, 100));
  EXPECT_EQ(store_figures(folder.path()).blocks, 2) << "a prefix of a stored block is not stored again";
  EXPECT_EQ(bench.reusable(tokens), 300);
}

TEST(PrefixStore, SurvivesBeingClosed) {
  const TempFolder folder;
  const Tokens tokens = random_tokens(555, 9);
  Bench(folder.path()).put(tokens, SnapshotPart::kAll);
  Bench again(folder.path());
  EXPECT_EQ(again.reusable(tokens), 555);
  EXPECT_EQ(again.store->lookup(tokens).snapshot_position(), 555);
}

TEST(PrefixStore, StoredTwiceGivesIdenticalBytes) {
  const TempFolder a, b;
  const Tokens tokens = random_tokens(700, 10);
  Bench one(a.path()), other(b.path());
  one.put(tokens, SnapshotPart::kAll);
  for (const std::size_t length : {30, 256, 300, 700}) other.put(first_of(tokens, length));
  other.put(tokens, SnapshotPart::kAll);
  const auto records = [](const fs::path& folder) {
    std::vector<std::vector<std::uint8_t>> all;
    const auto env = Environment::open(folder, {});
    const ReadTxn txn(*env);
    for (const Table table : {Table::kBlocks, Table::kSnapshots, Table::kPieces}) {
      Cursor cursor(txn, table);
      for (bool there = cursor.first(); there; there = cursor.next()) {
        all.emplace_back(cursor.key().begin(), cursor.key().end());
        all.emplace_back(cursor.value().begin(), cursor.value().end());
      }
    }
    return all;
  };
  const auto first = records(a.path());
  EXPECT_EQ(first, records(b.path()));
  EXPECT_GE(first.size(), 6u);
}

TEST(PrefixStore, SnapshotsAreFoundAtTheLastPositionThatWillDo) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(800, 11);
  for (const std::size_t at : {20, 256, 300, 511, 512, 700})
    bench.put(first_of(tokens, at), SnapshotPart::kAll);
  const auto position = [&](std::size_t length, std::int64_t at_most) {
    return bench.store->lookup(first_of(tokens, length), SnapshotPart::kAll, at_most).snapshot_position();
  };
  EXPECT_EQ(position(800, INT64_MAX), 700);
  EXPECT_EQ(position(800, 699), 512);
  EXPECT_EQ(position(512, INT64_MAX), 512);
  EXPECT_EQ(position(511, INT64_MAX), 511);
  EXPECT_EQ(position(510, INT64_MAX), 300);
  EXPECT_EQ(position(299, INT64_MAX), 256);
  EXPECT_EQ(position(255, INT64_MAX), 20);
  EXPECT_EQ(position(19, INT64_MAX), 0);
}

TEST(PrefixStore, SnapshotsPutBackTheRingsOfTheirPosition) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(520, 12);
  for (const std::size_t at : {1, 2, 3, 7, 8, 9, 256, 519, 520}) {
    const Tokens part = first_of(tokens, at);
    bench.put(part, SnapshotPart::kAll);
    const PrefixHit hit = bench.store->lookup(part);
    ASSERT_EQ(hit.snapshot_position(), static_cast<std::int64_t>(at));
    SequenceCache cache(bench.pool);
    bench.store->restore(hit, hit.length(), cache);
    std::string why_not;
    EXPECT_TRUE(bench.store->restore_snapshot(hit, cache, why_not)) << why_not;
    expect_right_rings(bench.pool, cache, part, SnapshotPart::kAll);
  }
}

TEST(PrefixStore, EncoderSnapshotsServeThoseWhoNeedNoMore) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(300, 13);
  bench.put(tokens, SnapshotPart::kEncoder);
  EXPECT_EQ(bench.store->lookup(tokens, SnapshotPart::kEncoder).snapshot_position(), 300);
  EXPECT_EQ(bench.store->lookup(tokens, SnapshotPart::kAll).snapshot_position(), 0);
  bench.put(tokens, SnapshotPart::kAll);
  EXPECT_EQ(bench.store->lookup(tokens, SnapshotPart::kAll).snapshot_position(), 300);
  bench.put(tokens, SnapshotPart::kEncoder);
  const PrefixHit hit = bench.store->lookup(tokens, SnapshotPart::kEncoder);
  EXPECT_EQ(hit.snapshot_part(), SnapshotPart::kAll) << "a smaller snapshot does not replace a larger one";
}

TEST(PrefixStore, ModelsInOneFolderNeverMix) {
  const TempFolder folder;
  Bench a(folder.path(), small_plan(), "a"), b(folder.path(), small_plan(), "b");
  const Tokens tokens = random_tokens(300, 14);
  a.put(tokens);
  const PrefixHit hit = b.store->lookup(tokens);
  EXPECT_EQ(hit.length(), 0);
  EXPECT_NE(hit.why_not_more().find("another family"), std::string::npos) << hit.why_not_more();
  b.put(tokens);
  EXPECT_EQ(a.reusable(tokens), 300);
  EXPECT_EQ(b.reusable(tokens), 300);
}

TEST(PrefixStore, AFullQueueTakesTheLeadingBlocksAndGoesOnLater) {
  const TempFolder folder;
  PagePool pool(small_plan());
  PrefixStoreOptions options;
  options.folder = folder.path();
  options.queue_bytes = 3 * 256 * 100;  // three blocks of 92 bytes a token
  PrefixStore store(small_plan(), identity_named("model"), options);
  Sequence sequence(pool);
  sequence.append(random_tokens(256 * 8 + 20, 15));
  const PrefixStored first = store.store(sequence.cache, SnapshotPart::kAll);
  EXPECT_GT(first.blocks_queued, 0);
  EXPECT_LT(first.blocks_queued, 8);
  EXPECT_FALSE(first.snapshot_queued);
  EXPECT_NE(first.why_not_all, "");
  for (int i = 0; i < 5; ++i) {
    store.flush();
    store.store(sequence.cache, SnapshotPart::kAll);
  }
  store.flush();
  EXPECT_EQ(store.lookup(sequence.cache.tokens()).length(), 256 * 8 + 20);
  EXPECT_EQ(store.stats().write.queued_bytes, 0);
}

// The writer rests between commits that are small then.
TEST(PrefixStore, WritesAllBesideAModelThatComputes) {
  const TempFolder folder;
  Bench bench(folder.path());
  Sequence sequence(bench.pool);
  sequence.append(random_tokens(256 * 400 + 20, 17));
  const StepActivity computes;
  EXPECT_EQ(bench.store->store(sequence.cache, SnapshotPart::kAll).blocks_queued, 400);
  const PrefixStored again = bench.store->store(sequence.cache);
  EXPECT_EQ(again.blocks_there, 400) << "what waits is not queued twice";
  EXPECT_EQ(again.blocks_queued, 0);
  const std::chrono::milliseconds moment(1);
  while (bench.store->stats().write.commits < 1 && bench.store->stats().write.last_problem.empty())
    std::this_thread::sleep_for(moment);
  bench.store->hurry();
  while (bench.store->stats().write.queued_bytes > 0) std::this_thread::sleep_for(moment);
  EXPECT_EQ(bench.store->stats().write.last_problem, "");
  EXPECT_EQ(bench.store->stats().write.blocks_written, 400);
  EXPECT_EQ(bench.reusable(sequence.cache.tokens()), 256 * 400 + 20);
  const PrefixHit hit = bench.store->lookup(sequence.cache.tokens());
  EXPECT_EQ(hit.snapshot_position(), 256 * 400 + 20);
}

TEST(PrefixStore, PagesThatWaitToBeWrittenAreNotOverwritten) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(256 * 20, 16);
  Sequence sequence(bench.pool);
  for (std::size_t at = 0; at < tokens.size(); at += 256) {
    sequence.append(std::span(tokens).subspan(at, 256));
    bench.store->store(sequence.cache);
  }
  bench.store->flush();
  EXPECT_EQ(bench.reusable(tokens), static_cast<std::int64_t>(tokens.size()));
}

TEST(PrefixStore, AHitOutlivesItsBlockWhereALongerOneTakesItsPlace) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(256 + 130, 18);
  Sequence sequence(bench.pool);
  sequence.append(std::span(tokens).first(256 + 50));
  bench.store->store(sequence.cache);
  bench.store->flush();
  const PrefixHit hit = bench.store->lookup(std::span(tokens).first(256 + 40));
  EXPECT_EQ(hit.length(), 256 + 40);
  sequence.append(std::span(tokens).subspan(256 + 50));
  bench.store->store(sequence.cache);
  bench.store->flush();
  SequenceCache cache(bench.pool);
  const PrefixRestored restored = bench.store->restore(hit, hit.length(), cache);
  EXPECT_EQ(restored.length, 256 + 40) << restored.why_not_all;
  expect_right_rows(bench.pool, cache);
}

TEST(PrefixStore, ManyThreadsLookUpAndStoreAtOnce) {
  const TempFolder folder;
  Bench bench(folder.path());
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned i = 0; i < 12; ++i) {
        Sequence sequence(bench.pool);
        sequence.append(random_tokens(200 + 90 * t, 20 + i));
        bench.store->store(sequence.cache, SnapshotPart::kEncoder);
        const PrefixHit hit = bench.store->lookup(sequence.cache.tokens());
        SequenceCache cache(bench.pool);
        if (bench.store->restore(hit, hit.length(), cache).length != hit.length()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  bench.store->flush();
  EXPECT_EQ(wrong, 0);
  for (unsigned i = 0; i < 12; ++i) EXPECT_EQ(bench.reusable(random_tokens(470, 20 + i)), 470);
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
}

TEST(PrefixStore, AFlashTokenTakes890BytesAndTwoPercentAtMost) {
  const TempFolder folder;
  Bench bench(folder.path(), flash_plan());
  EXPECT_EQ(bench.pool.plan().stored_bytes_per_token(), 890);
  constexpr std::int64_t kTokens = 256 * 64;
  bench.put(random_tokens(kTokens, 17));
  const StoreFigures figures = store_figures(folder.path());
  const double records = static_cast<double>(figures.record_bytes) / kTokens;
  const double live = static_cast<double>(figures.live_bytes) / kTokens;
  RecordProperty("record_bytes_per_token", std::to_string(records));
  RecordProperty("live_bytes_per_token", std::to_string(live));
  EXPECT_LE(records, 896.0);
  EXPECT_LE(live, 890 * 1.02);
  EXPECT_EQ(snapshot_bytes(flash_plan(), SnapshotPart::kAll, 1000), 2703360 + 3 * 2 * 4096);
}

}  // namespace
}  // namespace seekline::persist_test
