#include "core/mapped_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "core/temp_folder.h"
#include "seekline/error.h"

namespace seekline {
namespace {

namespace fs = std::filesystem;

class MappedFileTest : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  const TempFolder folder_;
};

// Reads a byte in a way that the compiler cannot drop.
int peek(const MappedFile& file, std::int64_t at) {
  return *const_cast<const volatile std::uint8_t*>(file.data() + at);
}

TEST_F(MappedFileTest, HoldsTheBytesOfTheFile) {
  const MappedFile file = MappedFile::open(write("a", "seek line"));
  ASSERT_EQ(file.bytes(), 9);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(file.data()), 9), "seek line");
}

TEST_F(MappedFileTest, EmptyFileHasNoBytes) {
  const MappedFile file = MappedFile::open(write("empty", ""));
  EXPECT_EQ(file.bytes(), 0);
  EXPECT_EQ(file.data(), nullptr);
}

TEST_F(MappedFileTest, AbsentFileIsNotFoundByName) {
  try {
    MappedFile::open(folder_ / "absent");
    FAIL() << "opened a file that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("absent"));
  }
}

TEST_F(MappedFileTest, FolderIsNotAFile) {
  try {
    MappedFile::open(folder_.path());
    FAIL() << "mapped a folder";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
  }
}

TEST_F(MappedFileTest, MoveLeavesNothingBehind) {
  MappedFile a = MappedFile::open(write("a", "first"));
  MappedFile b = MappedFile::open(write("b", "second"));
  a = std::move(b);
  EXPECT_EQ(a.bytes(), 6);
  EXPECT_EQ(a.path().filename(), "b");
  EXPECT_EQ(b.bytes(), 0);  // NOLINT(bugprone-use-after-move)
}

TEST_F(MappedFileTest, ShrinkingUnderUseEndsTheProcessWithASentence) {
  const fs::path path = write("shard.safetensors", std::string(1 << 20, 'x'));
  EXPECT_EXIT(
      {
        const MappedFile other = MappedFile::open(write("other", std::string(1 << 16, 'y')));
        const MappedFile file = MappedFile::open(path);
        fs::resize_file(path, 4096);
        std::exit(peek(file, 1 << 19));
      },
      ::testing::ExitedWithCode(static_cast<int>(ErrorCode::kIo)),
      "shard.safetensors: the file was cut short");
}

TEST_F(MappedFileTest, OtherBusErrorsReachThePreviousHandler) {
  const fs::path path = write("foreign", std::string(8192, 'x'));
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { ::_exit(42); });
        const MappedFile guarded = MappedFile::open(write("guarded", "x"));
        std::FILE* f = std::fopen(path.c_str(), "rb");
        auto* data =
            static_cast<volatile char*>(::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, ::fileno(f), 0));
        fs::resize_file(path, 0);
        std::exit(data[4096]);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST_F(MappedFileTest, AdviceKeepsTheBytes) {
  const MappedFile file = MappedFile::open(write("a", std::string(5 << 20, 'z')));
  map_huge_pages(file.data() + 10, file.bytes() - 10);
  map_huge_pages(file.data(), 100);
  map_will_need(file.data() + 10, 50000);
  map_random_access(file.data() + 4097, 300000);
  map_dont_need(file.data() + 4097, 60000);
  EXPECT_EQ(peek(file, 0), 'z');
  EXPECT_EQ(peek(file, (5 << 20) - 1), 'z');
  EXPECT_EQ(peek(file, 50000), 'z');
}

TEST_F(MappedFileTest, ForgottenBytesAreReadFromTheFileAgain) {
  const fs::path path = write("a", std::string(1 << 20, 'z'));
  const int fd = ::open(path.c_str(), O_RDONLY);
  ASSERT_GE(fd, 0);
  struct statfs system {};
  ASSERT_EQ(::fstatfs(fd, &system), 0);
  ASSERT_EQ(::fsync(fd), 0);  // the cache keeps what is not on the disk yet
  ::close(fd);
  const MappedFile file = MappedFile::open(path);
  EXPECT_EQ(peek(file, 500'000), 'z');
  EXPECT_TRUE(map_is_resident(file.data() + 500'000, 1));
  file.forget(file.data(), file.bytes());
  EXPECT_TRUE(system.f_type == TMPFS_MAGIC || !map_is_resident(file.data(), file.bytes()));
  EXPECT_EQ(peek(file, 500'000), 'z');
  EXPECT_TRUE(map_is_resident(file.data(), file.bytes())) << "one page of them is";
}

}  // namespace
}  // namespace seekline
