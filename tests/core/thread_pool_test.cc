// Stages of the thread pool: every item is done once, by however many workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "core/thread_pool.h"

namespace seekline {
namespace {

constexpr int kItems = 1000;

std::vector<int> counts_of(const std::vector<std::atomic<int>>& done) { return {done.begin(), done.end()}; }

TEST(ThreadPool, SplitGivesEveryItemToOneWorker) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    for (const std::int64_t items : {0, 1, 2, kItems}) {
      std::vector<std::atomic<int>> done(kItems);
      pool.split(items, 16, [&](WorkRange range, int worker) {
        EXPECT_TRUE(worker >= 0 && worker < workers);
        EXPECT_EQ(range.begin % 16, 0);
        for (std::int64_t i = range.begin; i < range.end; ++i) ++done[static_cast<std::size_t>(i)];
      });
      std::vector<int> expected(kItems, 0);
      std::fill_n(expected.begin(), items, 1);
      EXPECT_EQ(counts_of(done), expected) << workers << " workers, " << items << " items";
    }
  }
}

TEST(ThreadPool, DealGivesEveryItemToOneWorkerInAscendingOrder) {
  for (const int workers : {1, 2, 3, 7}) {
    ThreadPool pool(workers);
    for (const std::int64_t items : {0, 1, 2, kItems}) {
      std::vector<std::atomic<int>> done(kItems);
      std::vector<std::int64_t> last(static_cast<std::size_t>(workers), -1);
      pool.deal(items, [&](std::int64_t item, int worker) {
        ASSERT_TRUE(worker >= 0 && worker < workers);
        EXPECT_GT(item, last[static_cast<std::size_t>(worker)]);
        last[static_cast<std::size_t>(worker)] = item;
        ++done[static_cast<std::size_t>(item)];
      });
      std::vector<int> expected(kItems, 0);
      std::fill_n(expected.begin(), items, 1);
      EXPECT_EQ(counts_of(done), expected) << workers << " workers, " << items << " items";
    }
  }
}

}  // namespace
}  // namespace seekline
