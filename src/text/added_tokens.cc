#include "text/added_tokens.h"

#include <algorithm>
#include <utility>

namespace seekline {

AddedTokenMatcher::AddedTokenMatcher(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(),
            [](const AddedToken& a, const AddedToken& b) { return a.content < b.content; });
  for (const AddedToken& token : tokens_) first_bytes_.set(static_cast<std::uint8_t>(token.content[0]));
}

std::optional<AddedTokenMatcher::Found> AddedTokenMatcher::find(std::string_view text,
                                                                std::size_t start) const {
  for (; start < text.size(); ++start) {
    if (!first_bytes_[static_cast<std::uint8_t>(text[start])]) continue;
    if (const auto found = longest_at(text, start)) return found;
  }
  return std::nullopt;
}

// Narrows the sorted list to the contents that agree with the text byte by byte; a content that ends where
// the list is narrowed to so far is its first entry.
std::optional<AddedTokenMatcher::Found> AddedTokenMatcher::longest_at(std::string_view text,
                                                                      std::size_t start) const {
  std::optional<Found> longest;
  auto low = tokens_.begin(), high = tokens_.end();
  for (std::size_t length = 0; start + length < text.size(); ++length) {
    // Contents that end here sort first and were taken in the round before.
    low = std::partition_point(low, high, [&](const AddedToken& t) { return t.content.size() <= length; });
    const auto next = static_cast<std::uint8_t>(text[start + length]);
    const auto byte_of = [length](const AddedToken& t) {
      return static_cast<std::uint8_t>(t.content[length]);
    };
    low = std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) < next; });
    high = std::partition_point(low, high, [&](const AddedToken& t) { return byte_of(t) == next; });
    if (low == high) break;
    if (low->content.size() == length + 1) longest = Found{start, length + 1, low->id};
  }
  return longest;
}

std::optional<TokenId> AddedTokenMatcher::exact(std::string_view content) const {
  const auto found = std::lower_bound(tokens_.begin(), tokens_.end(), content,
                                      [](const AddedToken& t, std::string_view c) { return t.content < c; });
  if (found == tokens_.end() || found->content != content) return std::nullopt;
  return found->id;
}

}  // namespace seekline
