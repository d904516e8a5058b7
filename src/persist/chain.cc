#include "persist/chain.h"

#include <algorithm>

#include <fmt/format.h>

namespace seekline {
namespace {

// Siblings that share as many whole segments as the best one are compared token by token, but not without
// end.
constexpr int kMostSiblings = 64;

std::int64_t common_bytes(Bytes a, Bytes b) {
  const auto [end, unused] = std::mismatch(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  return end - a.begin();
}

// Looks at places under one parent, nearest to the wanted one first, in one direction.
class Siblings {
 public:
  Siblings(const Txn& txn, const ChainModel& model, const Key& parent, std::int64_t first,
           std::span<const std::int32_t> tokens, Chain* found)
      : txn_(txn),
        model_(model),
        parent_(parent),
        first_(first),
        tokens_(tokens),
        found_(found),
        wanted_(parent, tokens) {}

  void look() {
    Cursor cursor(txn_, Table::kBlocks);
    const bool there = cursor.seek(wanted_.bytes());
    if (there) {
      for (int i = 0; i < kMostSiblings && consider(cursor) && cursor.next(); ++i) {
      }
      if (!cursor.seek(wanted_.bytes()) || !cursor.previous()) return;
    } else if (!cursor.last()) {
      return;
    }
    for (int i = 0; i < kMostSiblings && consider(cursor) && cursor.previous(); ++i) {
    }
  }

  std::optional<ChainLink> best() const {
    if (most_ == 0) return std::nullopt;
    return ChainLink{Place(parent_, best_tokens_), parent_, first_, most_};
  }

 private:
  // Whether it is worth going on behind this place.
  bool consider(const Cursor& cursor) {
    const Bytes place = cursor.key();
    if (!starts_with(place, bytes_of(parent_))) return false;
    const std::int64_t segments =
        (common_bytes(place, wanted_.bytes()) - 16) / static_cast<std::int64_t>(Place::kSegmentBytes);
    if (segments < most_ / Place::kSegmentTokens) return false;
    std::string problem;
    const auto record = StoredRecord::find(txn_, RecordKind::kBlock, place, problem);
    if (problem.empty() && record) {
      if (record->header().mismatch(model_.plan, model_.fingerprint, parent_, first_)) return true;
      const std::int64_t common = record->header().common_tokens(tokens_);
      if (common > most_) {
        most_ = common;
        best_tokens_ = record->header().tokens();
      }
    } else if (found_ != nullptr) {
      found_->damaged.emplace_back(place.begin(), place.end());
      found_->why_not_more = fmt::format("a block behind token {} {}", first_, problem);
    }
    return true;
  }

  const Txn& txn_;
  const ChainModel& model_;
  const Key parent_;
  const std::int64_t first_;
  const std::span<const std::int32_t> tokens_;
  Chain* const found_;
  const Place wanted_;
  std::int64_t most_ = 0;
  std::vector<std::int32_t> best_tokens_;
};

// The full block at `first`, if it is stored and sound. `why` and `damaged` tell of one that is there and is
// not.
std::optional<ChainLink> full_block(const Txn& txn, const ChainModel& model, const Key& parent,
                                    std::int64_t first, std::span<const std::int32_t> tokens, Chain* found) {
  const Place place(parent, tokens);
  std::string problem;
  const auto record = StoredRecord::find(txn, RecordKind::kBlock, place.bytes(), problem);
  if (!record) return std::nullopt;
  const bool broken = !problem.empty();
  if (!broken) {
    if (const auto differs = record->header().mismatch(model.plan, model.fingerprint, parent, first)) {
      problem = *differs;
    } else if (record->header().token_count() != kBlockTokens ||
               record->header().common_tokens(tokens) != kBlockTokens) {
      problem = "has other tokens with the same hash";
    }
  }
  if (problem.empty()) return ChainLink{place, parent, first, kBlockTokens};
  if (found != nullptr) {
    found->why_not_more = fmt::format("the block behind token {} {}", first, problem);
    if (broken) found->damaged.emplace_back(place.bytes().begin(), place.bytes().end());
  }
  return std::nullopt;
}

}  // namespace

std::optional<ChainLink> best_child(const Txn& txn, const ChainModel& model, const Key& parent,
                                    std::int64_t first, std::span<const std::int32_t> tokens, Chain* found) {
  Siblings siblings(txn, model, parent, first, tokens, found);
  siblings.look();
  return siblings.best();
}

Chain find_chain(const Txn& txn, const ChainModel& model, std::span<const std::int32_t> tokens) {
  Chain chain;
  Key parent = model.fingerprint;
  const std::int64_t count = static_cast<std::int64_t>(tokens.size());
  while (chain.length + kBlockTokens <= count) {
    const auto block =
        tokens.subspan(static_cast<std::size_t>(chain.length), static_cast<std::size_t>(kBlockTokens));
    const auto link = full_block(txn, model, parent, chain.length, block, &chain);
    if (!link) break;
    parent = link->place.chain_key();
    chain.links.push_back(*link);
    chain.length += kBlockTokens;
  }
  if (chain.length == count) return chain;
  const auto rest = tokens.subspan(static_cast<std::size_t>(chain.length));
  const auto next = rest.first(std::min(rest.size(), static_cast<std::size_t>(kBlockTokens)));
  if (const auto last = best_child(txn, model, parent, chain.length, next, &chain)) {
    chain.links.push_back(*last);
    chain.length += last->tokens;
  }
  if (chain.length == count) {
    chain.why_not_more.clear();
  } else if (chain.why_not_more.empty()) {
    chain.why_not_more = chain.length == 0 ? "the store holds no prefix that begins like this"
                                           : fmt::format("nothing is stored behind token {}", chain.length);
  }
  return chain;
}

std::int64_t count_full_blocks(const Txn& txn, const ChainModel& model,
                               std::span<const std::int32_t> tokens) {
  Key parent = model.fingerprint;
  std::int64_t blocks = 0;
  while (static_cast<std::int64_t>(tokens.size()) >= kBlockTokens) {
    const auto block = tokens.first(static_cast<std::size_t>(kBlockTokens));
    const auto link = full_block(txn, model, parent, blocks * kBlockTokens, block, nullptr);
    if (!link) break;
    parent = link->place.chain_key();
    tokens = tokens.subspan(block.size());
    ++blocks;
  }
  return blocks;
}

std::optional<ChainSnapshot> find_snapshot(const Txn& txn, const ChainModel& model, const Chain& chain,
                                           std::span<const std::int32_t> tokens, SnapshotPart part,
                                           std::int64_t at_most) {
  Cursor any(txn, Table::kSnapshots);
  for (std::size_t i = chain.links.size(); i-- > 0;) {
    const ChainLink& link = chain.links[i];
    if (!any.seek(bytes_of(link.parent)) || !starts_with(any.key(), bytes_of(link.parent))) continue;
    for (std::int64_t n = std::min(link.tokens, at_most - link.first); n > 0; --n) {
      const auto own = tokens.subspan(static_cast<std::size_t>(link.first), static_cast<std::size_t>(n));
      const Place place(link.parent, own);
      std::string problem;
      const auto record = StoredRecord::find(txn, RecordKind::kSnapshot, place.bytes(), problem);
      if (!record || !problem.empty()) continue;
      const HeaderView& header = record->header();
      if (header.mismatch(model.plan, model.fingerprint, link.parent, link.first) ||
          header.token_count() != n || header.common_tokens(own) != n || header.part() < part)
        continue;
      return ChainSnapshot{place, link.parent, link.first, n, header.part()};
    }
  }
  return std::nullopt;
}

}  // namespace seekline
