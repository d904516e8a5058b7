// House rules that a compiler does not check. Each rule is also shown a tree that breaks it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <vector>

#include "core/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

std::vector<std::string> included_rooms(const std::string& text) {
  static const std::regex include(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*"([^"/]+)/[^"]*")re");
  std::vector<std::string> rooms;
  for (auto it = std::sregex_iterator(text.begin(), text.end(), include); it != std::sregex_iterator(); ++it)
    rooms.push_back((*it)[1].str());
  return rooms;
}

// Includes below src/ that point the wrong way; `checked` counts those that were looked at.
std::vector<std::string> wrong_includes(const fs::path& root, int* checked = nullptr) {
  std::vector<std::string> wrong;
  for (const fs::path& path : sources(root / "src")) {
    const fs::path name = fs::relative(path, root / "src");
    const std::string room = (*name.begin()).string();
    if (room_number(room) == kRooms.size()) {
      wrong.push_back(name.string() + " is in no room");
      continue;
    }
    for (const std::string& other : included_rooms(read(path))) {
      if (checked) ++*checked;
      if (other == "seekline") continue;  // the public API
      if (room_number(other) > room_number(room) || (room == "text" && other == "checkpoint"))
        wrong.push_back(name.string() + " includes " + other);
    }
  }
  return wrong;
}

// Tests below tests/ that assert nothing, and test files without a test.
std::vector<std::string> empty_tests(const fs::path& root, int* checked = nullptr) {
  static const std::regex test(R"(\bTEST(?:_F|_P)?\((\w+, \w+)\))");
  static const std::regex assertion(
      R"(\b(?:EXPECT|ASSERT)_[A-Z]+|\b(?:check|expect)(?:_\w+)?\(|\bADD_FAILURE)");
  std::vector<std::string> empty;
  for (const fs::path& path : sources(root / "tests")) {
    if (!path.filename().string().ends_with("_test.cc")) continue;
    if (checked) ++*checked;
    const std::string text = read(path);
    std::vector<std::smatch> tests;
    for (auto it = std::sregex_iterator(text.begin(), text.end(), test); it != std::sregex_iterator(); ++it)
      tests.push_back(*it);
    if (tests.empty()) empty.push_back(path.filename().string() + " has no test");
    for (std::size_t i = 0; i < tests.size(); ++i) {
      const auto begin = text.begin() + tests[i].position();
      const auto end = i + 1 < tests.size() ? text.begin() + tests[i + 1].position() : text.end();
      if (!std::regex_search(begin, end, assertion))
        empty.push_back(path.filename().string() + ": " + tests[i][1].str() + " asserts nothing");
    }
  }
  return empty;
}

// A tree of one file below a temporary folder.
class MadeTree {
 public:
  MadeTree(const std::string& name, const std::string& text) {
    fs::create_directories((root() / name).parent_path());
    std::ofstream(root() / name) << text;
  }
  const fs::path& root() const { return folder_.path(); }

 private:
  seekline::TempFolder folder_;
};

TEST(Tree, IncludesPointOnlyToEarlierRooms) {
  int checked = 0;
  EXPECT_THAT(wrong_includes(kRoot, &checked), IsEmpty());
  EXPECT_GT(checked, 100);
}

TEST(Tree, AnIncludeOfALaterRoomIsFound) {
  const MadeTree late("src/attention/a.h", "// a\n#include \"model/moe.h\"\n#include \"cache/ledger.h\"\n");
  EXPECT_THAT(wrong_includes(late.root()), ElementsAre("attention/a.h includes model"));
  const MadeTree spaced("src/core/a.cc", "  #  include \"formats/rows.h\"\n");
  EXPECT_THAT(wrong_includes(spaced.root()), ElementsAre("core/a.cc includes formats"));
  const MadeTree unknown("src/kernels/a.cc", "#include \"misc/things.h\"\n");
  EXPECT_THAT(wrong_includes(unknown.root()), ElementsAre("kernels/a.cc includes misc"));
  const MadeTree sibling("src/text/a.cc", "#include \"checkpoint/cases.h\"\n");
  EXPECT_THAT(wrong_includes(sibling.root()), ElementsAre("text/a.cc includes checkpoint"));
  const MadeTree roomless("src/misc/a.cc", "int a;\n");
  EXPECT_THAT(wrong_includes(roomless.root()), ElementsAre("misc/a.cc is in no room"));
}

TEST(Tree, PublicHeadersIncludeNoRoom) {
  for (const fs::path& path : sources(kRoot / "include"))
    for (const std::string& room : included_rooms(read(path))) EXPECT_EQ(room, "seekline") << path;
}

TEST(Tree, EveryTestAsserts) {
  int checked = 0;
  EXPECT_THAT(empty_tests(kRoot, &checked), IsEmpty());
  EXPECT_GT(checked, 30);
}

// Written in pieces, so that this file does not look like what it makes.
TEST(Tree, ATestThatAssertsNothingIsFound) {
  const std::string test = "TEST", good = test + "(A, B) { EXPECT_EQ(1, 1); }\n";
  const MadeTree hollow("tests/core/a_test.cc", good + test + "_F(A, C) { run(); }\n" + good);
  EXPECT_THAT(empty_tests(hollow.root()), ElementsAre("a_test.cc: A, C asserts nothing"));
  const MadeTree nothing("tests/core/b_test.cc", "int main() {}\n");
  EXPECT_THAT(empty_tests(nothing.root()), ElementsAre("b_test.cc has no test"));
  const MadeTree fine("tests/core/c_test.cc", good);
  EXPECT_THAT(empty_tests(fine.root()), IsEmpty());
}

// No file is so long that it could not be held in the head; ./dev lint says the same of functions.
TEST(Tree, NoSourceIsLongerThanTwiceWhatIsAimedAt) {
  for (const char* below : {"include", "src", "tests", "bench", "tools"})
    for (const fs::path& path : sources(kRoot / below)) {
      const std::string text = read(path);
      EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 600) << path << ": split it by concept";
    }
}

// Every golden folder says where its values come from.
TEST(Tree, EveryGoldenHasItsProvenance) {
  for (const auto& folder : fs::directory_iterator(kRoot / "tests/golden/data")) {
    bool told = false;
    for (const auto& entry : fs::directory_iterator(folder.path()))
      told |= entry.path().filename().string().starts_with("PROVENANCE");
    EXPECT_TRUE(told || folder.path().filename() == "synth") << folder.path();
  }
  EXPECT_THAT(read(kRoot / "tests/golden/data/models/PROVENANCE-v41.md"), HasSubstr("synth/v41-true6"));
}

}  // namespace
