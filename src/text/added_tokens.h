// Finds added tokens in text.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_file.h"

namespace seekline {

/// Looks for a set of strings: leftmost match, the longest at one place. Immutable.
class AddedTokenMatcher {
 public:
  struct Found {
    std::size_t begin = 0, bytes = 0;
    TokenId id = 0;
  };

  explicit AddedTokenMatcher(std::vector<AddedToken> tokens);
  /// The first match in `text` at or after `start`.
  std::optional<Found> find(std::string_view text, std::size_t start) const;
  std::optional<TokenId> exact(std::string_view content) const;

 private:
  std::optional<Found> longest_at(std::string_view text, std::size_t start) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::bitset<256> first_bytes_;
};

}  // namespace seekline
