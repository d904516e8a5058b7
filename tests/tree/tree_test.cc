// House rules that a compiler does not check.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

const fs::path kRoot = SEEKLINE_SOURCE_DIR;

// Each room may include itself and the rooms before it (docs/architecture.md).
const std::vector<std::string> kRooms{"core",      "formats", "kernels", "checkpoint", "text",  "cache",
                                      "attention", "model",   "engine",  "persist",    "serve", "app"};

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

std::vector<fs::path> sources(const fs::path& below) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(below))
    if (entry.path().extension() == ".cc" || entry.path().extension() == ".h") found.push_back(entry.path());
  std::sort(found.begin(), found.end());
  return found;
}

std::size_t room_number(const std::string& room) {
  return static_cast<std::size_t>(std::find(kRooms.begin(), kRooms.end(), room) - kRooms.begin());
}

TEST(Tree, IncludesPointOnlyToEarlierRooms) {
  const std::regex include(R"re(#include "([a-z_]+)/[^"]+")re");
  int checked = 0;
  for (const fs::path& path : sources(kRoot / "src")) {
    const std::string room = (*fs::relative(path, kRoot / "src").begin()).string();
    ASSERT_LT(room_number(room), kRooms.size()) << path << " is in no room";
    const std::string text = read(path);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), include); it != std::sregex_iterator();
         ++it) {
      const std::string other = (*it)[1].str();
      ++checked;
      if (other == "seekline") continue;  // the public API
      EXPECT_LE(room_number(other), room_number(room)) << path << " includes a file of " << other;
      EXPECT_FALSE(room == "text" && other == "checkpoint") << path << ": text does not know checkpoint";
    }
  }
  EXPECT_GT(checked, 100);
}

TEST(Tree, PublicHeadersIncludeNoRoom) {
  const std::regex include(R"re(#include "([a-z_]+)/)re");
  for (const fs::path& path : sources(kRoot / "include")) {
    const std::string text = read(path);
    for (auto it = std::sregex_iterator(text.begin(), text.end(), include); it != std::sregex_iterator();
         ++it)
      EXPECT_EQ((*it)[1].str(), "seekline") << path;
  }
}

TEST(Tree, EveryTestFileAssertsInEveryTest) {
  const std::regex test(R"(\bTEST(_F|_P)?\()");
  const std::regex assertion(R"(\b(EXPECT|ASSERT)_[A-Z]+|\bcheck_\w+\(|\bexpect_\w+\(|\bADD_FAILURE)");
  int files = 0;
  for (const fs::path& path : sources(kRoot / "tests")) {
    if (!path.filename().string().ends_with("_test.cc")) continue;
    ++files;
    const std::string text = read(path);
    std::vector<std::size_t> starts;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), test); it != std::sregex_iterator(); ++it)
      starts.push_back(static_cast<std::size_t>(it->position()));
    EXPECT_FALSE(starts.empty()) << path << " has no test";
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : text.size();
      const std::string body = text.substr(starts[i], end - starts[i]);
      EXPECT_TRUE(std::regex_search(body, assertion)) << path << ": " << body.substr(0, 80);
    }
  }
  EXPECT_GT(files, 10);
}

}  // namespace
