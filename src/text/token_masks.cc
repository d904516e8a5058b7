#include "text/token_masks.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace seekline::grammar {
namespace {

constexpr std::size_t kMaxMasks = 512;  // 16 KB each for 129k tokens

// The eight bits of a byte as eight bytes of 0 or 1, lowest bit first.
constexpr std::array<std::array<std::uint8_t, 8>, 256> kSpread = [] {
  std::array<std::array<std::uint8_t, 8>, 256> spread{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit) spread[byte][bit] = (byte >> bit) & 1;
  return spread;
}();

}  // namespace

TokenMasks::TokenMasks(const TokenVocabulary& vocabulary, Stacks& stacks)
    : vocabulary_(vocabulary), stacks_(stacks), way_(vocabulary.max_depth() + 1) {}

void TokenMasks::walk(Stacks::PlaceId place, Words& words) {
  const auto allow = [&words](std::span<const TokenId> tokens) {
    for (const TokenId token : tokens)
      words[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  };
  const auto nodes = vocabulary_.nodes();
  way_[0] = place;
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenVocabulary::Node& node = nodes[i];
    const Stacks::PlaceId next = stacks_.next(way_[node.depth - 1u], node.byte);
    if (next == Stacks::kDead) {
      i = node.end;
    } else if (node.text_below && stacks_.in_text(next)) {
      allow(vocabulary_.tokens_from(i));
      i = node.end;
    } else {
      way_[node.depth] = next;
      allow(vocabulary_.tokens_at(i));
      ++i;
    }
  }
  if (stacks_.can_end(place)) allow(vocabulary_.end_tokens());
}

const TokenMasks::Words& TokenMasks::words(Stacks::PlaceId place) {
  const auto found = masks_.find(place);
  if (found != masks_.end()) return found->second;
  if (masks_.size() == kMaxMasks) masks_.clear();
  Words words((vocabulary_.size() + 63) / 64);
  walk(place, words);
  return masks_.emplace(place, std::move(words)).first->second;
}

void TokenMasks::write(Stacks::PlaceId place, std::span<std::uint8_t> allowed) {
  const Words& bits = words(place);
  std::uint8_t* out = allowed.data();
  const std::size_t whole = vocabulary_.size() / 8;
  for (std::size_t i = 0; i < whole; ++i, out += 8)
    std::memcpy(out, kSpread[(bits[i / 8] >> (i % 8 * 8)) & 0xFF].data(), 8);
  std::fill(out, allowed.data() + allowed.size(), std::uint8_t{0});
  for (std::size_t token = whole * 8; token < vocabulary_.size(); ++token)
    allowed[token] = (bits[token / 64] >> (token % 64)) & 1;
}

}  // namespace seekline::grammar
