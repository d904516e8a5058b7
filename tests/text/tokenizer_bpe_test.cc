// Both ways of merging against the definition: find the best pair, leftmost first, until there is none.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "text/bpe.h"

namespace seekline {
namespace {

struct Vocabulary {
  std::array<TokenId, 256> byte_tokens{};
  std::vector<Merge> merges;
};

/// `letters` bytes and merges of random earlier tokens, as training would leave them.
Vocabulary random_vocabulary(std::mt19937_64& random, TokenId letters, TokenId merges) {
  Vocabulary vocabulary;
  vocabulary.byte_tokens.fill(-1);
  for (TokenId i = 0; i < letters; ++i)
    vocabulary.byte_tokens[static_cast<std::size_t>('a') + static_cast<std::size_t>(i)] = i;
  std::map<std::pair<TokenId, TokenId>, bool> taken;
  for (TokenId next = letters; next < letters + merges;) {
    // Mostly short tokens, so that merges do apply.
    const auto pick = [&] {
      return static_cast<TokenId>(random() % static_cast<std::uint64_t>(random() % 3 != 0 ? letters : next));
    };
    const TokenId left = pick(), right = pick();
    if (!taken.emplace(std::pair(left, right), true).second) continue;
    vocabulary.merges.push_back({left, right, next++});
  }
  return vocabulary;
}

std::vector<TokenId> by_definition(const Vocabulary& vocabulary, const std::string& piece) {
  std::vector<TokenId> tokens;
  for (const char c : piece) {
    const TokenId token = vocabulary.byte_tokens[static_cast<std::uint8_t>(c)];
    if (token >= 0) tokens.push_back(token);
  }
  std::map<std::pair<TokenId, TokenId>, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < vocabulary.merges.size(); ++rank) {
    rank_of[{vocabulary.merges[rank].left, vocabulary.merges[rank].right}] = rank;
  }
  while (true) {
    std::size_t best = SIZE_MAX, at = 0;
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto found = rank_of.find({tokens[i], tokens[i + 1]});
      if (found != rank_of.end() && found->second < best) best = found->second, at = i;
    }
    if (best == SIZE_MAX) return tokens;
    tokens[at] = vocabulary.merges[best].merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

TEST(Bpe, ShortAndLongPiecesFollowTheDefinition) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 60; ++round) {
    const auto letters = static_cast<TokenId>(1 + random() % 4);
    const auto merges = static_cast<TokenId>(random() % (letters == 1 ? 1 : 12));
    const Vocabulary vocabulary = random_vocabulary(random, letters, merges);
    const Bpe bpe(vocabulary.byte_tokens, vocabulary.merges);
    Bpe::Scratch scratch;
    for (std::size_t length = 0; length < 130; ++length) {
      std::string piece;
      // One letter beyond the vocabulary: such bytes vanish, and their neighbours meet.
      for (std::size_t i = 0; i < length; ++i)
        piece += static_cast<char>('a' + random() % (static_cast<std::uint64_t>(letters) + 1));
      std::vector<TokenId> tokens{-7};
      bpe.encode(piece, scratch, tokens);
      std::vector<TokenId> expected = by_definition(vocabulary, piece);
      expected.insert(expected.begin(), -7);
      ASSERT_EQ(tokens, expected) << "round " << round << ", piece " << piece;
    }
  }
}

}  // namespace
}  // namespace seekline
