#include "text/utf8.h"

#include <gtest/gtest.h>

namespace seekline {
namespace {

using Kind = Utf8Character::Kind;

TEST(Utf8, EveryScalarValueRoundTrips) {
  for (std::uint32_t c = 0; c <= 0x10FFFF; ++c) {
    std::string text;
    append_utf8(c, text);
    const Utf8Character character = first_character(text);
    if (c >= 0xD800 && c <= 0xDFFF) {
      ASSERT_EQ(character.kind, Kind::kInvalid) << c;
      continue;
    }
    ASSERT_EQ(character.kind, Kind::kValid) << c;
    ASSERT_EQ(character.code_point, c);
    ASSERT_EQ(character.bytes, text.size());
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(first_character(std::string_view(text).substr(0, cut)).kind, Kind::kIncomplete) << c;
    }
  }
}

TEST(Utf8, OverlongAndOutOfRangeSequencesAreInvalidAtTheirFirstByte) {
  for (const char* text : {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                           "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\x80"}) {
    EXPECT_EQ(first_character(text).kind, Kind::kInvalid) << text;
    EXPECT_EQ(first_character(text).bytes, 1U) << text;
  }
}

TEST(Utf8, LossyTextHasOneReplacementForEachMaximalSubpart) {
  std::string text;
  // Table 3-8 of the Unicode standard.
  EXPECT_EQ(append_lossy("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64", text), 0U);
  EXPECT_EQ(text, "a\uFFFD\uFFFD\uFFFDb\uFFFDc\uFFFD\uFFFDd");
  text.clear();
  EXPECT_EQ(append_lossy("a\xE2\x82", text), 2U) << "could still become the euro sign";
  EXPECT_EQ(text, "a");
}

}  // namespace
}  // namespace seekline
