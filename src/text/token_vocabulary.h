// The texts of a vocabulary as a tree of bytes: which tokens a grammar allows is found by walking it once.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace seekline {

/// Immutable; any thread may use it. Build it once for a model.
class TokenVocabulary {
 public:
  /// texts[id] are the bytes of a token; empty where a token is no text. End tokens end a text and are no
  /// part of it. Throws Error(kUnsupported) where JSON cannot be spelled: a printable ASCII character or a
  /// continuation byte of UTF-8 without a token of its own.
  TokenVocabulary(std::span<const std::string> texts, std::vector<TokenId> end_tokens);
  /// The ordinary tokens of a tokenizer; its added tokens are no text.
  static std::shared_ptr<const TokenVocabulary> of(const Tokenizer& tokenizer,
                                                   std::span<const TokenId> end_tokens);

  std::size_t size() const { return texts_.size(); }  ///< tokens
  std::string_view text(TokenId token) const { return texts_[static_cast<std::size_t>(token)]; }
  std::span<const TokenId> end_tokens() const { return end_tokens_; }
  bool is_end(TokenId token) const;
  bool has_byte(std::uint8_t byte) const { return byte_tokens_[byte] >= 0; }

  /// The tree in depth-first order. The children of a node follow it; `end` is where its subtree ends.
  struct Node {
    std::uint32_t end;
    std::uint32_t first_token;  ///< tokens()[first_token .. the next node's first_token) end here
    std::uint16_t depth;        ///< 1 for a first byte
    std::uint8_t byte;
    bool text_below;  ///< what follows it in all tokens below is UTF-8 that needs no escape in JSON; it may
                      ///< be cut
  };
  std::span<const Node> nodes() const { return {nodes_.data(), nodes_.size() - 1}; }
  std::span<const TokenId> tokens_at(std::size_t node) const {
    return {tokens_.data() + nodes_[node].first_token,
            nodes_[node + 1].first_token - nodes_[node].first_token};
  }
  /// All tokens at and below a node.
  std::span<const TokenId> tokens_from(std::size_t node) const {
    return {tokens_.data() + nodes_[node].first_token,
            nodes_[nodes_[node].end].first_token - nodes_[node].first_token};
  }
  std::size_t max_depth() const { return max_depth_; }

  /// `text` as few long tokens, the longest that fits at each place; every byte of it must have a token.
  std::vector<TokenId> spell(std::string_view text) const;

 private:
  void build_tree();
  void find_texts();
  void check_bytes() const;

  std::vector<std::string> texts_;
  std::vector<TokenId> end_tokens_;
  std::array<TokenId, 256> byte_tokens_;
  std::vector<Node> nodes_;  // and one more that only ends the last one's tokens
  std::vector<TokenId> tokens_;
  std::size_t max_depth_ = 0;
};

}  // namespace seekline
