// The pre-tokenizer and its dialect of regular expressions; what cannot be honoured exactly is refused.
#include "text/pretokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden_tokenizers.h"
#include "seekline/error.h"
#include "text/char_set.h"
#include "text/unicode_classes.h"

namespace seekline {
namespace {

std::vector<std::string> pieces(const std::vector<std::string>& patterns, const std::string& text) {
  std::vector<std::size_t> lengths;
  Pretokenizer(patterns).cut(text, lengths);
  std::vector<std::string> result;
  std::size_t at = 0;
  for (const std::size_t length : lengths) {
    result.push_back(text.substr(at, length));
    at += length;
  }
  EXPECT_EQ(at, text.size());
  return result;
}

using Pieces = std::vector<std::string>;

TEST(Pretokenizer, CutsIntoMatchesAndWhatIsBetween) {
  EXPECT_EQ(pieces({}, "ab"), Pieces{"ab"});
  EXPECT_EQ(pieces({"b"}, ""), Pieces{});
  EXPECT_EQ(pieces({"b"}, "abbc"), (Pieces{"a", "b", "b", "c"}));
  EXPECT_EQ(pieces({"\\p{N}{1,3}"}, "12345a\u0663"), (Pieces{"123", "45", "a", "\u0663"}));
}

TEST(Pretokenizer, AStepSeesNothingOutsideItsPiece) {
  // The look-ahead of the second step meets the end of its piece where the digit was.
  EXPECT_EQ(pieces({"\\p{N}", "a(?!.)"}, "aa1"), (Pieces{"a", "a", "1"}));
  EXPECT_EQ(pieces({"a(?!.)"}, "aa1"), Pieces{"aa1"});
}

TEST(Pretokenizer, AlternativesAreTriedInOrder) {
  EXPECT_EQ(pieces({"a|ab|b"}, "ab"), (Pieces{"a", "b"}));
  EXPECT_EQ(pieces({"(?>a|ab)c|."}, "abc"), (Pieces{"a", "b", "c"}));
}

TEST(Pretokenizer, ReadsEveryKindOfItem) {
  EXPECT_EQ(pieces({"[^\\S\\n]+"}, "a \u3000\nb"), (Pieces{"a", " \u3000", "\nb"}));
  EXPECT_EQ(pieces({"[a\\-\\]\\^]+"}, "xa-]^y"), (Pieces{"x", "a-]^", "y"}));
  EXPECT_EQ(pieces({"[\\x{4E00}-\\u9FA5]+"}, "a\u4E00\u9FA5\u9FA6"), (Pieces{"a", "\u4E00\u9FA5", "\u9FA6"}));
  EXPECT_EQ(pieces({"\\P{L}+"}, "ab12c"), (Pieces{"ab", "12", "c"}));
  EXPECT_EQ(pieces({"a{2,3}|(?:bc){2}"}, "bcbcb"), (Pieces{"bcbc", "b"}));
}

TEST(Pretokenizer, DollarStandsBeforeEveryNewlineAndAtTheEnd) {
  EXPECT_EQ(pieces({" +$"}, "a  \nb  c  "), (Pieces{"a", "  ", "\nb  c", "  "}));
}

TEST(Pretokenizer, CaseIsIgnoredAsUnicodeFoldsIt) {
  EXPECT_EQ(pieces({"(?i:'s|k)"}, "a'S'\u017F\u212Ax"), (Pieces{"a", "'S", "'\u017F", "\u212A", "x"}));
}

TEST(Pretokenizer, BytesThatAreNoUtf8AreOnlyInComplements) {
  EXPECT_EQ(pieces({"\\p{L}+", "[^\\p{L}]"}, "a\xFF\xC3z"), (Pieces{"a", "\xFF", "\xC3", "z"}));
  EXPECT_EQ(pieces({"[\\x{0}-\\x{10FFFE}]"}, "ab\xFF\xFE"), (Pieces{"a", "b", "\xFF\xFE"}));
}

class RefusedPattern : public ::testing::TestWithParam<std::pair<const char*, const char*>> {};

TEST_P(RefusedPattern, IsNamedWithTheReason) {
  const auto [pattern, reason] = GetParam();
  try {
    Pretokenizer refused({pattern});
    FAIL() << pattern << " was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr(reason));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPattern,
    ::testing::Values(
        std::pair("", "it is empty"), std::pair("a*", "match nothing"), std::pair("\\d+", "escape \\d"),
        std::pair("\\w", "escape \\w"), std::pair("\\p{Lu}", "only L, M, N, P and S"),
        std::pair("[[:alpha:]]", "without a backslash"), std::pair("[a&&b]", "'&&'"),
        std::pair("[]a]", "begins with ']'"), std::pair("[a", "not closed"), std::pair("[b-a]", "in order"),
        std::pair("[\\s-z]", "two characters"), std::pair("(a", "not closed"),
        std::pair("a)", "closes nothing"), std::pair("(?<=a)b", "only the groups"),
        std::pair("(?i)a", "only the groups"), std::pair("^a", "'^'"), std::pair("*a", "nothing to repeat"),
        std::pair("a**", "follows another"), std::pair("a{1,2}+", "followed by"), std::pair("a{2", "{n,m}"),
        std::pair("a{3,2}", "{n,m}"), std::pair("a{1001}", "1000 times"),
        std::pair("(?=a)+b", "matches no characters"), std::pair("(?i:\u00E9)", "other than ASCII"),
        std::pair("(?i:ss)", "ligature"), std::pair("\\x{110000}", "above 10FFFF"),
        std::pair("\\xFF", "a byte"), std::pair("\\u12", "cut short"), std::pair("a\\", "ends too early"),
        std::pair("[^\\s\\S]", "holds no character"), std::pair("((a{1000}){1000}){1000}", "too large")));

TEST(Pretokenizer, EndlessBacktrackingIsAnErrorNotAHang) {
  const Pretokenizer pretokenizer({"(?:a|b|ab)+c(?=z)"});
  std::string text;
  for (int i = 0; i < 200; ++i) text += "ab";
  std::vector<std::size_t> lengths;
  EXPECT_THROW(pretokenizer.cut(text + "c", lengths), Error);
}

CharSet set_of(const nlohmann::json& ranges) {
  std::vector<CharRange> result;
  for (const auto& range : ranges) result.push_back({range[0], range[1]});
  return CharSet(std::move(result));
}

TEST(UnicodeClasses, TablesAreThoseOfTheReference) {
  const auto classes =
      nlohmann::json::parse(golden::read_file(golden::text_data("tokenizer/unicode-classes.json")));
  const auto expect_same = [&](const char* key, std::span<const CharRange> table) {
    const CharSet expected = set_of(classes.at(key));
    EXPECT_TRUE(std::equal(table.begin(), table.end(), expected.ranges().begin(), expected.ranges().end()))
        << key;
  };
  expect_same("L", unicode::kLetter);
  expect_same("M", unicode::kMark);
  expect_same("N", unicode::kNumber);
  expect_same("P", unicode::kPunctuation);
  expect_same("S", unicode::kSymbol);
  expect_same("space", unicode::kSpace);
  expect_same("engram_dropped", unicode::kEngramDropped);
  expect_same("engram_strip", unicode::kEngramStripped);
}

TEST(CharPartition, AClassHoldsOnlyCharactersThatNoSetTellsApart) {
  const std::vector<CharSet> sets{CharSet({{'a', 'm'}}), CharSet({{'h', 'z'}, {0x4E00, 0x9FA5}}),
                                  CharSet({{'a', 'z'}}).complement()};
  const CharPartition partition(sets);
  ASSERT_TRUE(partition.ok());
  for (std::uint32_t c = 0; c <= kLastCodePoint; c += c < 0x3000 ? 1 : 97) {
    for (std::size_t i = 0; i < sets.size(); ++i) {
      const auto classes = partition.classes_of_set(i);
      const bool in_classes =
          std::find(classes.begin(), classes.end(), partition.class_of(c)) != classes.end();
      ASSERT_EQ(in_classes, sets[i].contains(c)) << "U+" << std::hex << c << ", set " << i;
    }
  }
}

TEST(CharPartition, SaysSoWhenThereAreTooManyClasses) {
  std::vector<CharSet> sets;
  for (std::uint32_t c = 0; c < 300; ++c) sets.push_back(CharSet::of(2 * c));
  EXPECT_FALSE(CharPartition(sets).ok());
}

}  // namespace
}  // namespace seekline
