// Finds stored prefixes: follows a chain of blocks, token by token at its end.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "persist/stored_record.h"

namespace seekline {

/// One block of a chain, and how many of its tokens are wanted.
struct ChainLink {
  Place place;
  Key parent;
  std::int64_t first = 0, tokens = 0;
};

/// How far the store holds a sequence of tokens.
struct Chain {
  std::vector<ChainLink> links;  ///< all full but the last, which may be a part of a block
  std::int64_t length = 0;
  std::string why_not_more;                        ///< empty where all tokens are there
  std::vector<std::vector<std::uint8_t>> damaged;  ///< places of blocks whose headers are broken
};

struct ChainSnapshot {
  Place place;
  Key parent;
  std::int64_t first = 0, tokens = 0;  ///< of the block it lies in; position = first + tokens
  SnapshotPart part = SnapshotPart::kEncoder;
  std::int64_t position() const { return first + tokens; }
};

/// What lookups compare records with.
struct ChainModel {
  const CachePlan& plan;
  Key fingerprint;
};

/// The longest stored prefix of `tokens`, by headers alone. The last link is any block that shares tokens
/// with the rest, full or partial: rows depend on what is before them only.
Chain find_chain(const Txn& txn, const ChainModel& model, std::span<const std::int32_t> tokens);

/// As many leading full blocks of `tokens` as are stored, without looking for a last part.
std::int64_t count_full_blocks(const Txn& txn, const ChainModel& model, std::span<const std::int32_t> tokens);

/// The block under `parent` that shares most tokens with `tokens` (at most kBlockTokens of them), if any
/// shares one.
std::optional<ChainLink> best_child(const Txn& txn, const ChainModel& model, const Key& parent,
                                    std::int64_t first, std::span<const std::int32_t> tokens,
                                    Chain* found = nullptr);

/// The last snapshot at a position in [1, at_most] along the chain that holds `part`.
std::optional<ChainSnapshot> find_snapshot(const Txn& txn, const ChainModel& model, const Chain& chain,
                                           std::span<const std::int32_t> tokens, SnapshotPart part,
                                           std::int64_t at_most);

}  // namespace seekline
