// Which tokens may follow at a place of a grammar.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "text/grammar_stacks.h"
#include "text/token_vocabulary.h"

namespace seekline::grammar {

/// Walks the vocabulary's tree with the grammar, skipping what lies below a token that cannot be read, and
/// what is text all through where the grammar reads text; remembers what it found. One thread at a time.
class TokenMasks {
 public:
  /// Keeps references.
  TokenMasks(const TokenVocabulary& vocabulary, Stacks& stacks);

  /// allowed[token] = 1 or 0; zeros behind the vocabulary.
  void write(Stacks::PlaceId place, std::span<std::uint8_t> allowed);
  /// The places have been renumbered.
  void forget() { masks_.clear(); }

 private:
  using Words = std::vector<std::uint64_t>;  // one bit a token

  const Words& words(Stacks::PlaceId place);
  void walk(Stacks::PlaceId place, Words& words);

  const TokenVocabulary& vocabulary_;
  Stacks& stacks_;
  std::unordered_map<Stacks::PlaceId, Words> masks_;
  std::vector<Stacks::PlaceId> way_;  // [depth] the place after that many bytes of a token
};

}  // namespace seekline::grammar
