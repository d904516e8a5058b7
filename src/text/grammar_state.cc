#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_map>
#include <utility>

#include "core/check.h"
#include "seekline/error.h"
#include "text/grammar.h"
#include "text/grammar_stacks.h"

namespace seekline {
namespace {

using grammar::Stacks;

// About 1.1 KB each.
constexpr std::size_t kMaxPlaces = 20'000;
constexpr std::size_t kMaxMasks = 512;

// The eight bits of a byte as eight bytes of 0 or 1, lowest bit first.
constexpr std::array<std::array<std::uint8_t, 8>, 256> kSpread = [] {
  std::array<std::array<std::uint8_t, 8>, 256> spread{};
  for (unsigned byte = 0; byte < 256; ++byte)
    for (unsigned bit = 0; bit < 8; ++bit) spread[byte][bit] = (byte >> bit) & 1;
  return spread;
}();

}  // namespace

struct GrammarState::Masks {
  std::unordered_map<std::uint32_t, Words> words;  // by place
  std::vector<Stacks::PlaceId> way;                // of a walk: the place at each depth
};

GrammarState::GrammarState(Grammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      stacks_(std::make_unique<Stacks>(*grammar_.automaton_, grammar_.root_)),
      place_(stacks_->start()),
      masks_(std::make_unique<Masks>()) {
  for (std::size_t byte = 0; byte < 256; ++byte)
    if (grammar_.automaton_->literal_bytes()[byte] && !vocabulary_->has_byte(static_cast<std::uint8_t>(byte)))
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("the schema holds the byte 0x{:02X}, which this model's vocabulary cannot spell",
                      byte));
}

GrammarState::~GrammarState() = default;
GrammarState::GrammarState(GrammarState&&) noexcept = default;
GrammarState& GrammarState::operator=(GrammarState&&) noexcept = default;

const GrammarState::Words& GrammarState::words_of(std::uint32_t place) {
  const auto found = masks_->words.find(place);
  if (found != masks_->words.end()) return found->second;
  if (masks_->words.size() == kMaxMasks) masks_->words.clear();
  Words words((vocabulary_->size() + 63) / 64);
  const auto allow = [&](TokenId token) {
    words[static_cast<std::size_t>(token) / 64] |= std::uint64_t{1} << (token % 64);
  };
  std::vector<Stacks::PlaceId>& way = masks_->way;
  way.resize(vocabulary_->max_depth() + 1);
  way[0] = place;
  const auto nodes = vocabulary_->nodes();
  for (std::size_t i = 0; i < nodes.size();) {
    const TokenVocabulary::Node& node = nodes[i];
    const Stacks::PlaceId next = stacks_->next(way[node.depth - 1u], node.byte);
    if (next == Stacks::kDead) {
      i = node.end;
      continue;
    }
    way[node.depth] = next;
    for (const TokenId token : vocabulary_->tokens_at(i)) allow(token);
    ++i;
  }
  if (stacks_->can_end(place))
    for (const TokenId end : vocabulary_->end_tokens()) allow(end);
  return masks_->words.emplace(place, std::move(words)).first->second;
}

void GrammarState::mask(std::span<std::uint8_t> allowed) {
  SEEKLINE_CHECK(allowed.size() >= vocabulary_->size(), "a mask is as long as the vocabulary");
  std::fill(allowed.begin(), allowed.end(), std::uint8_t{0});
  if (ended_) return;
  collect_garbage();
  const Words& words = words_of(place_);
  for (std::size_t i = 0; i < vocabulary_->size(); i += 8) {
    const std::array<std::uint8_t, 8>& eight = kSpread[(words[i / 64] >> (i % 64)) & 0xFF];
    std::copy_n(eight.begin(), std::min<std::size_t>(8, vocabulary_->size() - i),
                allowed.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

std::uint32_t GrammarState::after(std::uint32_t place, std::string_view text) {
  for (const char c : text) place = stacks_->next(place, static_cast<std::uint8_t>(c));
  return place;
}

bool GrammarState::accept(TokenId token) {
  if (ended_ || token < 0 || static_cast<std::size_t>(token) >= vocabulary_->size()) return false;
  if (vocabulary_->is_end(token)) return ended_ = can_end();
  return !vocabulary_->text(token).empty() && accept_text(vocabulary_->text(token));
}

bool GrammarState::accept_text(std::string_view text) {
  const std::uint32_t next = ended_ ? Stacks::kDead : after(place_, text);
  if (next == Stacks::kDead) return false;
  place_ = next;
  return true;
}

bool GrammarState::can_end() const { return ended_ || stacks_->can_end(place_); }

bool GrammarState::finished() const { return ended_ || stacks_->must_end(place_); }

std::string GrammarState::completion() const { return ended_ ? "" : stacks_->completion(place_); }

std::vector<TokenId> GrammarState::completion_tokens() const { return completion_tokens_at(place_); }

std::vector<TokenId> GrammarState::completion_tokens_at(std::uint32_t place) const {
  return ended_ ? std::vector<TokenId>{} : vocabulary_->spell(stacks_->completion(place));
}

bool GrammarState::fits(TokenId token, std::int64_t tokens_left) {
  if (vocabulary_->is_end(token)) return can_end();
  const std::uint32_t next = after(place_, vocabulary_->text(token));
  if (next == Stacks::kDead || tokens_left < 0) return false;
  // A token a byte at most; only near the limit it is worth the time to spell it.
  return stacks_->shortest(next) <= tokens_left ||
         static_cast<std::int64_t>(completion_tokens_at(next).size()) <= tokens_left;
}

std::vector<TokenId> GrammarState::advance(TokenId token, std::int64_t tokens_left) {
  std::vector<TokenId> forced;
  if (fits(token, tokens_left - 1)) {
    accept(token);
    return forced;
  }
  forced = completion_tokens();
  for (const TokenId taken : forced) accept(taken);
  return forced;
}

void GrammarState::collect_garbage() {
  if (stacks_->places() <= kMaxPlaces) return;
  masks_->words.clear();
  place_ = stacks_->keep_only(place_);
}

}  // namespace seekline
