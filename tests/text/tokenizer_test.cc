// What the tokenizer promises beyond the goldens: bytes, added tokens, long pieces.
#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "golden_tokenizers.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using golden::tiny_tokenizer;
using golden::v41_tokenizer;
using golden::v4_tokenizer;

TEST(Tokenizer, KnowsItsTokens) {
  const Tokenizer& v4 = v4_tokenizer();
  EXPECT_EQ(v4.size(), 129280);
  EXPECT_EQ(v4.added_token("<\uFF5CUser\uFF5C>"), 128803);
  EXPECT_EQ(v4.added_token("<\uFF5CSystem\uFF5C>"), std::nullopt);
  EXPECT_EQ(v41_tokenizer().added_token("<\uFF5CSystem\uFF5C>"), 128799);
  EXPECT_EQ(v4.added_token("the"), std::nullopt);
  EXPECT_EQ(v4.token_spelling(223), "\u0120");
  EXPECT_EQ(v4.token_bytes(223), " ");
  EXPECT_TRUE(v4.is_special(0));
  EXPECT_TRUE(v4.is_added(128803));
  EXPECT_FALSE(v4.is_special(128803));
  EXPECT_FALSE(v4.is_added(223));
  EXPECT_TRUE(v4.begin().empty());
  EXPECT_EQ(golden::smollm2_tokenizer().size(), 49152);
}

TEST(Tokenizer, UserTextNeverBecomesAControlToken) {
  const std::string text = "<\uFF5CUser\uFF5C>hi<\uFF5Cend\u2581of\u2581sentence\uFF5C>";
  EXPECT_EQ(v4_tokenizer().encode("<\uFF5CUser\uFF5C>", false).size(), 5U);
  for (const TokenId id : v4_tokenizer().encode(text, false)) EXPECT_FALSE(v4_tokenizer().is_added(id));
  EXPECT_EQ(v4_tokenizer().encode("<\uFF5CUser\uFF5C>", true), std::vector<TokenId>{128803});
}

TEST(Tokenizer, RefusesIdsOutOfRange) {
  for (const TokenId id : {-1, 129280, INT32_MAX}) {
    EXPECT_THROW(v4_tokenizer().decode({&id, 1}), Error);
    EXPECT_THROW(v4_tokenizer().token_bytes(id), Error);
    EXPECT_THROW(StreamDecoder(v4_tokenizer()).push(id), Error);
  }
}

TEST(Tokenizer, EveryStringOfOneOrTwoBytesRoundTrips) {
  for (int first = 0; first < 256; ++first) {
    for (int second = -1; second < 256; ++second) {
      std::string bytes(1, static_cast<char>(first));
      if (second >= 0) bytes += static_cast<char>(second);
      ASSERT_EQ(tiny_tokenizer().decode(tiny_tokenizer().encode(bytes, false)), bytes);
    }
  }
}

TEST(Tokenizer, RandomBytesRoundTrip) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(random() % 60, '\0');
    // Half of the bytes from the ranges that begin and continue UTF-8 sequences.
    for (char& c : bytes) c = static_cast<char>(random() % 2 == 0 ? random() % 256 : 0x80 + random() % 0x80);
    EXPECT_EQ(v4_tokenizer().decode(v4_tokenizer().encode(bytes, true)), bytes);
    EXPECT_EQ(tiny_tokenizer().decode(tiny_tokenizer().encode(bytes, false)), bytes);
  }
}

TEST(Tokenizer, InvalidBytesLeaveTheirNeighboursAlone) {
  // A stray byte is a piece like any unassigned character: U+0378 in the same place cuts the same way.
  const auto with = [](const std::string& middle) {
    return v4_tokenizer().encode("one two" + middle + " three 123", false);
  };
  const std::vector<TokenId> stray = with("\xFF"), unassigned = with("\u0378");
  const std::vector<TokenId> byte = v4_tokenizer().encode("\xFF", false);
  const std::vector<TokenId> character = v4_tokenizer().encode("\u0378", false);
  ASSERT_EQ(stray.size() - byte.size(), unassigned.size() - character.size());
  EXPECT_TRUE(std::equal(stray.begin(), stray.begin() + 2, unassigned.begin()));
  EXPECT_TRUE(std::equal(stray.end() - 3, stray.end(), unassigned.end() - 3));
}

TEST(Tokenizer, MegabyteLongPiecesAreMergedToTheEnd) {
  // One piece of a million symbols takes the heap; the same letter must merge into the longest token there
  // is.
  const std::string letters(1'000'000, 'a');
  const std::vector<TokenId> ids = v4_tokenizer().encode(letters, false);
  EXPECT_LT(ids.size(), letters.size() / 4);
  EXPECT_EQ(v4_tokenizer().decode(ids), letters);
  const std::string blanks(1'000'000, ' ');
  EXPECT_EQ(v4_tokenizer().decode(v4_tokenizer().encode(blanks + "x", false)), blanks + "x");
  std::string stray(300'000, '\xFE');
  EXPECT_EQ(v4_tokenizer().decode(v4_tokenizer().encode(stray, false)), stray);
}

TEST(Tokenizer, ThreadsEncodeAsOneDoes) {
  std::vector<std::string> texts;
  for (const auto& row : golden::read_json_lines("tokenizer/deepseek-long.jsonl"))
    texts.push_back(row["text"]);
  std::vector<std::vector<TokenId>> alone;
  for (const std::string& text : texts) alone.push_back(v4_tokenizer().encode(text, true));
  std::vector<int> wrong(4);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < texts.size(); ++i) {
        const std::size_t j = (i + t * 7) % texts.size();
        if (v4_tokenizer().encode(texts[j], true) != alone[j]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ::testing::Each(0));
}

TEST(StreamDecoder, SkipsSpecialTokensWithoutBreakingACharacter) {
  StreamDecoder decoder(v4_tokenizer(), true);
  std::string text;
  for (const TokenId id : {175, 256, 1, 249, 225}) text += decoder.push(id);
  EXPECT_EQ(text, "\U0001F600");
}

}  // namespace
}  // namespace seekline
