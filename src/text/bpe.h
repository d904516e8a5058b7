// Byte-pair merges of one piece of text.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace seekline {

struct Merge {
  TokenId left = 0, right = 0, merged = 0;
};

/// Applies merges in order of rank, leftmost first, until none applies. Immutable; any thread may encode with
/// a scratch of its own.
class Bpe {
 public:
  /// `byte_tokens[b]` is the token of the single byte b, -1 where the vocabulary has none (such bytes vanish,
  /// as in the reference). merges[r] has rank r; no pair may appear twice.
  Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const Merge> merges);

  /// Buffers that are reused from piece to piece.
  struct Scratch {
    struct Symbol {
      TokenId token;
      std::uint32_t previous, next;
    };
    std::vector<std::uint32_t> ranks;
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> heap;
  };

  /// Appends the tokens of `piece`, which must be shorter than 4 GiB.
  void encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& tokens) const;

 private:
  struct Slot {
    TokenId left = -1, right = -1;
    std::uint32_t rank = 0;
    TokenId merged = 0;
  };
  std::size_t slot_of(TokenId left, TokenId right) const;
  const Slot* find(TokenId left, TokenId right) const;  // nullptr: these two never merge
  std::uint32_t rank_of(TokenId left, TokenId right) const;
  void merge_few(std::size_t first, Scratch& scratch, std::vector<TokenId>& tokens) const;
  void merge_many(std::size_t first, Scratch& scratch, std::vector<TokenId>& tokens) const;

  std::array<TokenId, 256> byte_tokens_;
  std::vector<Slot> slots_;  // open addressing, a power of two, at most half full
};

}  // namespace seekline
