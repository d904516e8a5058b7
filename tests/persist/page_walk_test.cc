// The look at LMDB's pages accepts whatever LMDB writes, and nothing that was changed.
#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "persist/environment.h"
#include "persist/page_walk.h"
#include "persist/store_fixture.h"

namespace seekline::persist_test {
namespace {

Bytes bytes_of_text(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

TEST(PageWalk, AcceptsAStoreAfterAnyHistoryOfWrites) {
  const TempFolder folder;
  const auto env = Environment::open(folder.path(), {.map_bytes = 256 << 20});
  std::mt19937 random(1);
  for (int commit = 0; commit < 120; ++commit) {
    WriteTxn txn(*env);
    for (int i = 0; i < 40; ++i) {
      const std::string key = "key " + std::to_string(random() % 500);
      const Table table = static_cast<Table>(2 + random() % 4);
      if (random() % 3 == 0) {
        txn.erase(table, bytes_of_text(key));
      } else {
        const std::size_t sizes[] = {1, 100, 2029, 2030, 2031, 4080, 4081, 30000, 60000};
        txn.put(table, bytes_of_text(key), bytes_of_text(std::string(sizes[random() % 9], 'x')));
      }
    }
    if (random() % 5 == 0) continue;  // given up
    txn.commit();
    const ReadTxn read(*env);
    EXPECT_EQ(tree_problem(read.handle()).value_or(""), "") << "commit " << commit;
  }
}

TEST(PageWalk, RefusesFilesThatAreNoStores) {
  const TempFolder folder;
  const auto problem_of = [&](const std::vector<char>& bytes) {
    write_file(folder.path() / "file", bytes);
    const int file = ::open((folder.path() / "file").c_str(), O_RDONLY);
    const auto problem = meta_problem(file);
    ::close(file);
    return problem.value_or("");
  };
  EXPECT_NE(problem_of(std::vector<char>(16384, 0)), "");
  EXPECT_NE(problem_of(std::vector<char>(100, 'x')), "");
  { Environment::open(folder.path(), {.map_bytes = 16 << 20}); }
  std::vector<char> bytes = read_file(folder.path() / "data.mdb");
  EXPECT_EQ(problem_of(bytes), "");
  for (const std::size_t at : {0u, 10u, 16u, 20u, 40u, 44u}) {
    for (const std::size_t page : {0u, 4096u}) {
      std::vector<char> changed = bytes;
      changed[page + at] = static_cast<char>(changed[page + at] ^ 0x10);
      EXPECT_NE(problem_of(changed), "") << page + at;
    }
  }
}

}  // namespace
}  // namespace seekline::persist_test
