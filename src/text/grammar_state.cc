#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/check.h"
#include "seekline/error.h"
#include "text/grammar.h"
#include "text/grammar_stacks.h"
#include "text/token_masks.h"

namespace seekline {
namespace {

using grammar::Stacks;

constexpr std::size_t kMaxPlaces = 20'000;  // about 1.1 KB each

}  // namespace

struct GrammarState::Masks : grammar::TokenMasks {
  using TokenMasks::TokenMasks;
};

GrammarState::GrammarState(Grammar grammar, std::shared_ptr<const TokenVocabulary> vocabulary)
    : grammar_(std::move(grammar)),
      vocabulary_(std::move(vocabulary)),
      stacks_(std::make_unique<Stacks>(*grammar_.automaton_, grammar_.root_)),
      place_(stacks_->start()),
      masks_(std::make_unique<Masks>(*vocabulary_, *stacks_)) {
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

void GrammarState::mask(std::span<std::uint8_t> allowed) {
  SEEKLINE_CHECK(allowed.size() >= vocabulary_->size(), "a mask is as long as the vocabulary");
  if (ended_) {
    std::fill(allowed.begin(), allowed.end(), std::uint8_t{0});
    return;
  }
  collect_garbage();
  masks_->write(place_, allowed);
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

std::optional<std::vector<TokenId>> GrammarState::advance(TokenId token, std::int64_t tokens_left) {
  if (fits(token, tokens_left - 1)) {
    accept(token);
    return std::nullopt;
  }
  std::vector<TokenId> rest = completion_tokens();
  accept_text(completion());
  ended_ = true;
  return rest;
}

void GrammarState::collect_garbage() {
  if (stacks_->places() <= kMaxPlaces) return;
  masks_->forget();
  place_ = stacks_->keep_only(place_);
}

}  // namespace seekline
