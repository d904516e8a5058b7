// Whatever happens to a store, it answers rightly, or misses with a reason, or refuses in one sentence.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <csignal>

#include "persist/faults.h"
#include "persist/maintenance.h"

namespace seekline::persist_test {
namespace {

using Tokens = std::vector<std::int32_t>;

// Run by class Worker in a process of its own.
TEST(FaultWorker, DISABLED_StoresLongerAndLongerPrefixes) {
  const char* folder = std::getenv(kWorkerFolder);
  ASSERT_NE(folder, nullptr);
  const int seed = std::atoi(std::getenv(kWorkerSeed));
  const Tokens tokens = worker_tokens(seed);
  Bench bench(folder);
  Sequence sequence(bench.pool);
  std::mt19937 random(static_cast<unsigned>(seed));
  std::ofstream progress(worker_progress(folder, seed), std::ios::app);
  while (sequence.cache.length() < static_cast<std::int64_t>(tokens.size())) {
    const std::int64_t at = sequence.cache.length();
    const std::int64_t count = std::min<std::int64_t>(1 + static_cast<std::int64_t>(random() % 400),
                                                      static_cast<std::int64_t>(tokens.size()) - at);
    sequence.append(std::span(tokens).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(count)));
    bench.store->store(sequence.cache, random() % 2 == 0 ? std::optional(SnapshotPart::kAll) : std::nullopt);
    if (random() % 3 == 0) {
      bench.store->flush();
      progress << sequence.cache.length() << std::endl;
    }
  }
  bench.store->flush();
  EXPECT_EQ(bench.store->stats().write.last_problem, "");
  progress << sequence.cache.length() << std::endl;
}

TEST(Faults, KillingAWriterAtAnyMomentLosesNothingThatWasCommitted) {
  std::mt19937 random(1);
  const TempFolder folder;
  int killed_in_the_middle = 0;
  for (int trial = 0; trial < trials(200); ++trial) {
    {
      Worker worker(folder.path(), trial);
      while (!fs::exists(worker_progress(folder.path(), trial)))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      // Every other one at a moment after its first commit, however slow the machine is just now.
      while (trial % 2 == 1 && stored_by_worker(folder.path(), trial) == 0)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 60000));
      worker.kill();
    }
    Bench bench(folder.path());
    const std::int64_t stored = stored_by_worker(folder.path(), trial);
    const Tokens tokens = worker_tokens(trial);
    killed_in_the_middle += stored > 0 && stored < static_cast<std::int64_t>(tokens.size());
    EXPECT_GE(bench.reusable(tokens), stored) << "trial " << trial;
    if (trial % 10 == 0) {
      EXPECT_TRUE(verify_store(folder.path(), false).problems.empty()) << "trial " << trial;
    }
  }
  for (int trial = 0; trial < trials(200); ++trial) {
    Bench bench(folder.path());
    EXPECT_GE(bench.reusable(worker_tokens(trial)), stored_by_worker(folder.path(), trial))
        << "earlier trial " << trial;
  }
  EXPECT_GT(killed_in_the_middle, 0);
}

TEST(Faults, KillingAWriterWhileItMakesTheStoreLeavesOneThatOpens) {
  std::mt19937 random(2);
  for (int trial = 0; trial < trials(100); ++trial) {
    const TempFolder folder;
    {
      Worker worker(folder.path(), trial);
      while (!fs::exists(folder.path() / "data.mdb"))
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
    }
    Bench bench(folder.path());
    const Tokens tokens = random_tokens(300, 1);
    bench.put(tokens);
    EXPECT_EQ(bench.reusable(tokens), 300);
  }
}

// Three sequences of several blocks with snapshots, in a file that has free pages as well.
std::vector<Tokens> fill_store(const fs::path& folder) {
  Bench bench(folder);
  std::vector<Tokens> all;
  for (unsigned i = 0; i < 12; ++i) {
    all.push_back(random_tokens(600 + 100 * i, 50 + i));
    bench.put(std::span(all.back()).first(90), SnapshotPart::kAll);
    bench.put(std::span(all.back()).first(400), SnapshotPart::kEncoder);
    bench.put(all.back(), SnapshotPart::kAll);
  }
  return all;
}

// Opens, looks up, restores, stores again, looks up again: all of it with the right rows or with a reason.
void expect_harmless(const fs::path& folder, const std::vector<Tokens>& all, const std::string& what,
                     int& refused, int& missed) {
  try {
    Bench bench(folder);
    for (const Tokens& tokens : all) {
      const PrefixHit hit = bench.store->lookup(tokens);
      SequenceCache cache(bench.pool);
      const PrefixRestored restored = bench.store->restore(hit, hit.length(), cache);
      expect_right_rows(bench.pool, cache, what);
      const bool whole = restored.length == static_cast<std::int64_t>(tokens.size());
      missed += !whole;
      EXPECT_TRUE(whole || !hit.why_not_more().empty() || !restored.why_not_all.empty()) << what;
      std::string why_not;
      if (hit.snapshot_position() > 0 && bench.store->restore_snapshot(hit, cache, why_not))
        expect_right_rings(bench.pool, cache,
                           std::span(tokens).first(static_cast<std::size_t>(hit.snapshot_position())),
                           hit.snapshot_part());
    }
    bench.store->flush();
    bench.put(all[0], SnapshotPart::kAll);
    bench.put(random_tokens(700, 99), SnapshotPart::kAll);
    if (bench.store->stats().write.last_problem.empty()) {
      EXPECT_EQ(bench.reusable(all[0]), static_cast<std::int64_t>(all[0].size())) << what;
    }
    verify_store(folder, true);
  } catch (const Error& error) {
    ++refused;
    EXPECT_GT(std::string(error.what()).size(), 20u) << what;
  }
}

void expect_changes_harmless(int count, bool in_trees) {
  const TempFolder folder;
  const std::vector<Tokens> all = fill_store(folder.path());
  const std::vector<char> sound = read_file(folder.path() / "data.mdb");
  std::mt19937 random(in_trees ? 3 : 4);
  int refused = 0, missed = 0;
  for (int trial = 0; trial < count; ++trial) {
    std::vector<char> bytes = sound;
    std::size_t at = random() % bytes.size();
    // Pages of trees and free lists are few among those of rows.
    while (in_trees && (bytes[at / 4096 * 4096 + 10] & 4) != 0) at = random() % bytes.size();
    if (in_trees && trial % 2 == 0) at = at / 4096 * 4096 + random() % 200;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
    write_file(folder.path() / "data.mdb", bytes);
    expect_harmless(folder.path(), all, "trial " + std::to_string(trial) + " byte " + std::to_string(at),
                    refused, missed);
  }
  write_file(folder.path() / "data.mdb", sound);
  int refused_sound = 0, missed_sound = 0;
  expect_harmless(folder.path(), all, "sound", refused_sound, missed_sound);
  EXPECT_EQ(refused_sound + missed_sound, 0);
  EXPECT_GT(refused + missed, 0);
}

TEST(Faults, FlippedBitsAnywhereAreMissesOrRefusals) { expect_changes_harmless(trials(200), false); }

TEST(Faults, FlippedBitsInTreePagesAreMissesOrRefusals) { expect_changes_harmless(trials(400), true); }

TEST(Faults, TruncationsAreMissesOrRefusals) {
  const TempFolder folder;
  const std::vector<Tokens> all = fill_store(folder.path());
  const std::vector<char> sound = read_file(folder.path() / "data.mdb");
  std::mt19937 random(5);
  int refused = 0, missed = 0;
  for (int trial = 0; trial < trials(50) + 6; ++trial) {
    const std::size_t lengths[] = {0, 1, 4096, 8191, 8192, sound.size() - 1};
    const std::size_t length = trial < 6 ? lengths[trial] : random() % sound.size();
    write_file(folder.path() / "data.mdb",
               {sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(length)});
    expect_harmless(folder.path(), all, "length " + std::to_string(length), refused, missed);
  }
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(remove_store(folder.path()));
  refused = missed = 0;
  expect_harmless(folder.path(), all, "removed", refused, missed);
  EXPECT_EQ(refused, 0) << "a damaged store can be removed and made anew";
}

TEST(Faults, ADamagedLockFileIsMadeAnew) {
  const TempFolder folder;
  const std::vector<Tokens> all = fill_store(folder.path());
  const std::vector<char> lock = read_file(folder.path() / "lock.mdb");
  std::mt19937 random(6);
  for (int trial = 0; trial < trials(50); ++trial) {
    std::vector<char> bytes = lock;
    for (int i = 0; i < 20; ++i) bytes[random() % 200] = static_cast<char>(random());
    if (trial % 5 == 0) bytes.resize(random() % bytes.size());
    write_file(folder.path() / "lock.mdb", bytes);
    int refused = 0, missed = 0;
    expect_harmless(folder.path(), all, "trial " + std::to_string(trial), refused, missed);
    EXPECT_EQ(refused + missed, 0);
  }
}

TEST(Faults, ADamagedBlockIsStoredAnew) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens tokens = random_tokens(1000, 7);
  bench.put(tokens);
  const Place second(Place(bench.store->fingerprint(), std::span(tokens).first(256)).chain_key(),
                     std::span(tokens).subspan(256, 256));
  {
    const auto env = Environment::open(folder.path(), {});
    WriteTxn txn(*env);
    const Bytes there = *txn.get(Table::kBlocks, second.bytes());
    std::vector<std::uint8_t> bytes(there.begin(), there.end());
    bytes.back() ^= 1;
    txn.put(Table::kBlocks, second.bytes(), bytes);
    txn.commit();
  }
  EXPECT_EQ(verify_store(folder.path(), false).problems.size(), 1u);
  const PrefixHit hit = bench.store->lookup(tokens);
  SequenceCache cache(bench.pool);
  const PrefixRestored restored = bench.store->restore(hit, hit.length(), cache);
  EXPECT_EQ(restored.length, 256);
  EXPECT_NE(restored.why_not_all.find("checksum"), std::string::npos) << restored.why_not_all;
  bench.store->flush();
  EXPECT_EQ(bench.reusable(tokens), 256);
  bench.put(tokens);
  EXPECT_EQ(bench.reusable(tokens), 1000);
}

TEST(Faults, OtherFormatVersionsAreRefusedOrMissed) {
  const TempFolder folder;
  const Tokens tokens = random_tokens(300, 8);
  const Place first = [&] {
    Bench bench(folder.path());
    bench.put(tokens);
    return Place(bench.store->fingerprint(), std::span(tokens).first(256));
  }();
  const auto change = [&](Table table, Bytes key, std::size_t at, std::uint8_t value) {
    const auto env = Environment::open(folder.path(), {});
    WriteTxn txn(*env);
    const Bytes there = *txn.get(table, key);
    std::vector<std::uint8_t> bytes(there.begin(), there.end());
    bytes[at] = value;
    txn.put(table, key, bytes);
    txn.commit();
  };
  change(Table::kBlocks, first.bytes(), 4, 0);
  {
    Bench bench(folder.path());
    const PrefixHit hit = bench.store->lookup(tokens);
    EXPECT_EQ(hit.length(), 0);
    EXPECT_NE(hit.why_not_more().find("format version 0"), std::string::npos) << hit.why_not_more();
  }
  const std::string format = "format";
  change(Table::kAbout, {reinterpret_cast<const std::uint8_t*>(format.data()), format.size()}, 0, 0);
  try {
    const Bench bench(folder.path());
    ADD_FAILURE() << "an old store was opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("format version 0"), std::string::npos) << error.what();
  }
}

// The file may not grow beyond `bytes` while this lives: writes fail as on a full disk.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit now = before_;
    now.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FileLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

void expect_full_disk_harmless(Bench& bench, const Tokens& before, const Tokens& later) {
  bench.put(later, SnapshotPart::kAll);
  const WriteStats stats = bench.store->stats().write;
  EXPECT_GT(stats.jobs_failed, 0);
  EXPECT_NE(stats.last_problem, "");
  EXPECT_EQ(bench.reusable(before), static_cast<std::int64_t>(before.size()));
  EXPECT_LT(bench.reusable(later), static_cast<std::int64_t>(later.size()));
}

TEST(Faults, AWriteErrorLeavesWhatWasThereAndIsTold) {
  const TempFolder folder;
  Bench bench(folder.path());
  const Tokens before = random_tokens(2000, 9), later = random_tokens(20000, 10);
  bench.put(before, SnapshotPart::kAll);
  {
    const FileLimit limit(fs::file_size(folder.path() / "data.mdb") + 100000);
    expect_full_disk_harmless(bench, before, later);
  }
  bench.put(later);
  EXPECT_EQ(bench.reusable(later), 20000) << "writing goes on when there is room again";
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
}

TEST(Faults, AFullDiskLeavesWhatWasThereAndIsTold) {
  const TempFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=2m") != 0)
    GTEST_SKIP() << "this process may not mount a small file system; AWriteErrorLeavesWhatWasThereAndIsTold "
                    "stands for it";
  {
    Bench bench(folder.path());
    const Tokens before = random_tokens(2000, 11), later = random_tokens(40000, 12);
    bench.put(before);
    expect_full_disk_harmless(bench, before, later);
  }
  {
    remove_store(folder.path());
    const int file = ::open((folder.path() / "filler").c_str(), O_CREAT | O_WRONLY, 0600);
    const std::vector<char> zeros(1 << 20, 0);
    while (::write(file, zeros.data(), zeros.size()) > 0) {
    }
    ::close(file);
    EXPECT_THROW(Bench{folder.path()}, Error) << "no room for a new store";
  }
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

// Nobody's rights, where the tests run as root.
class NoPrivileges {
 public:
  NoPrivileges() {
    if (::geteuid() == 0) dropped_ = ::seteuid(65534) == 0;
  }
  ~NoPrivileges() {
    if (dropped_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool dropped_ = false;
};

TEST(Faults, AStoreThatMayOnlyBeReadIsReadAndSaysWhyItIsNotWritten) {
  const TempFolder folder;
  const std::vector<Tokens> all = fill_store(folder.path());
  fs::permissions(folder.path(), fs::perms(0555));
  fs::permissions(folder.path() / "data.mdb", fs::perms(0444));
  fs::permissions(folder.path() / "lock.mdb", fs::perms(0666));
  {
    const NoPrivileges nobody;
    Bench bench(folder.path());
    EXPECT_NE(bench.store->why_read_only(), "");
    EXPECT_EQ(bench.reusable(all[3]), static_cast<std::int64_t>(all[3].size()));
    const PrefixStored stored = bench.put(random_tokens(300, 13));
    EXPECT_EQ(stored.blocks_queued, 0);
    EXPECT_EQ(stored.why_not_all, bench.store->why_read_only());
  }
  fs::permissions(folder.path() / "lock.mdb", fs::perms(0444));
  {
    const NoPrivileges nobody;
    EXPECT_THROW(Bench{folder.path()}, Error);
    EXPECT_THROW(Bench{folder.path() / "below"}, Error) << "a folder that cannot be made";
  }
  fs::permissions(folder.path(), fs::perms(0755));
}

TEST(Faults, AReadOnlyFileSystemIsRead) {
  const TempFolder folder;
  const std::vector<Tokens> all = fill_store(folder.path());
  if (::mount(folder.path().c_str(), folder.path().c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "this process may not mount";
  ASSERT_EQ(::mount(nullptr, folder.path().c_str(), nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY, nullptr), 0);
  {
    Bench bench(folder.path());
    EXPECT_NE(bench.store->why_read_only(), "");
    EXPECT_EQ(bench.reusable(all[2]), static_cast<std::int64_t>(all[2].size()));
  }
  EXPECT_EQ(::umount(folder.path().c_str()), 0);
}

TEST(Faults, TwoProcessesWriteAndReadOneStoreAtOnce) {
  const TempFolder folder;
  Bench bench(folder.path());
  Worker a(folder.path(), 501), b(folder.path(), 502);
  const Tokens own = random_tokens(8000, 14);
  Sequence sequence(bench.pool);
  for (std::size_t at = 0; at < own.size(); at += 200) {
    sequence.append(std::span(own).subspan(at, 200));
    bench.store->store(sequence.cache, SnapshotPart::kAll);
    for (const int seed : {501, 502}) {
      const std::int64_t stored = stored_by_worker(folder.path(), seed);
      const Tokens tokens = worker_tokens(seed);
      EXPECT_GE(bench.store->lookup(tokens).length(), stored);
    }
  }
  EXPECT_EQ(a.wait(), 0);
  EXPECT_EQ(b.wait(), 0);
  bench.store->flush();
  EXPECT_EQ(bench.reusable(own), 8000);
  for (const int seed : {501, 502}) EXPECT_EQ(bench.reusable(worker_tokens(seed)), 6000);
  EXPECT_TRUE(verify_store(folder.path(), false).problems.empty());
}

}  // namespace
}  // namespace seekline::persist_test
