#include "text/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace seekline {
namespace {

constexpr std::uint32_t kNoRank = UINT32_MAX;
constexpr std::uint32_t kNone = UINT32_MAX;
constexpr std::size_t kFewSymbols = 48;  // below this a scan for the best pair beats a heap

}  // namespace

Bpe::Bpe(const std::array<TokenId, 256>& byte_tokens, std::span<const Merge> merges)
    : byte_tokens_(byte_tokens), slots_(std::bit_ceil(2 * merges.size() + 1)) {
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const Merge& merge = merges[rank];
    slots_[slot_of(merge.left, merge.right)] = {merge.left, merge.right, static_cast<std::uint32_t>(rank),
                                                merge.merged};
  }
}

/// Where this pair is, or the free slot where it would be.
std::size_t Bpe::slot_of(TokenId left, TokenId right) const {
  const std::size_t mask = slots_.size() - 1;
  const std::uint64_t key = static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  std::size_t at = static_cast<std::size_t>((key * 0x9E3779B97F4A7C15U) >> 32) & mask;
  while (slots_[at].left >= 0 && (slots_[at].left != left || slots_[at].right != right)) at = (at + 1) & mask;
  return at;
}

const Bpe::Slot* Bpe::find(TokenId left, TokenId right) const {
  const Slot& slot = slots_[slot_of(left, right)];
  return slot.left >= 0 ? &slot : nullptr;
}

std::uint32_t Bpe::rank_of(TokenId left, TokenId right) const {
  const Slot* slot = find(left, right);
  return slot != nullptr ? slot->rank : kNoRank;
}

void Bpe::encode(std::string_view piece, Scratch& scratch, std::vector<TokenId>& tokens) const {
  const std::size_t first = tokens.size();
  for (const char c : piece) {
    const TokenId token = byte_tokens_[static_cast<std::uint8_t>(c)];
    if (token >= 0) tokens.push_back(token);
  }
  const std::size_t count = tokens.size() - first;
  if (count < 2) return;
  if (count <= kFewSymbols) {
    merge_few(first, scratch, tokens);
  } else {
    merge_many(first, scratch, tokens);
  }
}

void Bpe::merge_few(std::size_t first, Scratch& scratch, std::vector<TokenId>& tokens) const {
  std::vector<std::uint32_t>& ranks = scratch.ranks;  // ranks[i] of the pair (i, i + 1)
  ranks.clear();
  const auto symbols = tokens.begin() + static_cast<std::ptrdiff_t>(first);
  std::size_t count = tokens.size() - first;
  for (std::size_t i = 0; i + 1 < count; ++i)
    ranks.push_back(rank_of(tokens[first + i], tokens[first + i + 1]));
  for (; count > 1; --count) {
    const auto best = std::min_element(ranks.begin(), ranks.end());
    if (*best == kNoRank) break;
    const std::ptrdiff_t at = best - ranks.begin();
    symbols[at] = find(symbols[at], symbols[at + 1])->merged;
    tokens.erase(symbols + at + 1);
    ranks.erase(best);
    if (at > 0) ranks[static_cast<std::size_t>(at - 1)] = rank_of(symbols[at - 1], symbols[at]);
    if (static_cast<std::size_t>(at) < ranks.size()) {
      ranks[static_cast<std::size_t>(at)] = rank_of(symbols[at], symbols[at + 1]);
    }
  }
}

// The heap holds rank << 32 | position of the left symbol. An entry is stale when the pair that now begins at
// its position has another rank; a symbol that was merged away has token -1.
void Bpe::merge_many(std::size_t first, Scratch& scratch, std::vector<TokenId>& tokens) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& heap = scratch.heap;
  const auto count = static_cast<std::uint32_t>(tokens.size() - first);
  symbols.resize(count);
  heap.clear();
  for (std::uint32_t i = 0; i < count; ++i)
    symbols[i] = {tokens[first + i], i - 1, i + 1 < count ? i + 1 : kNone};
  const auto rank_at = [&](std::uint32_t at) {
    if (symbols[at].token < 0 || symbols[at].next == kNone) return kNoRank;
    return rank_of(symbols[at].token, symbols[symbols[at].next].token);
  };
  const auto entry_at = [&](std::uint32_t at) { return static_cast<std::uint64_t>(rank_at(at)) << 32 | at; };
  for (std::uint32_t i = 0; i < count; ++i) {
    if (rank_at(i) != kNoRank) heap.push_back(entry_at(i));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](std::uint32_t at) {
    if (at == kNone || rank_at(at) == kNoRank) return;
    heap.push_back(entry_at(at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::uint64_t entry = heap.back();
    heap.pop_back();
    const auto at = static_cast<std::uint32_t>(entry);
    if (entry_at(at) != entry) continue;
    Scratch::Symbol& left = symbols[at];
    Scratch::Symbol& right = symbols[left.next];
    left.token = find(left.token, right.token)->merged;
    right.token = -1;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = at;
    push(left.previous);
    push(at);
  }
  tokens.resize(first);
  for (std::uint32_t at = 0; at != kNone; at = symbols[at].next) tokens.push_back(symbols[at].token);
}

}  // namespace seekline
