#include "core/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace seekline {
namespace {

TEST(Memory, IsSomeAndNoMoreThanTheMachines) {
  EXPECT_GT(memory_bytes(), 1 << 20);
  EXPECT_LE(memory_bytes(), std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE));
}

}  // namespace
}  // namespace seekline
