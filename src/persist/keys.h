// Names of places in the prefix store (docs/prefix-store.md, "Keys").
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "cache/page_pool.h"

namespace seekline {

/// Tokens of a full block: one page of every growing store, so a whole number of groups as well.
inline constexpr std::int64_t kBlockTokens = kPageTokens;

/// 128 bits of XXH3: a model's fingerprint, or the end of a chain of blocks.
struct Key {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Key&) const = default;
  bool operator<(const Key& other) const {
    return std::memcmp(bytes.data(), other.bytes.data(), bytes.size()) < 0;
  }
  std::string hex() const;
};

/// Key of any bytes; `seed` tells uses apart.
Key key_of(std::span<const std::uint8_t> bytes, std::uint64_t seed);

struct KeyHash {
  std::size_t operator()(const Key& key) const;
};

/// Where the 1 to kBlockTokens tokens after the chain `parent` are kept: the parent's key, then 32 bits of
/// XXH3 for every 16 tokens. Places under one parent that share their first k*16 tokens share a prefix and so
/// lie side by side.
class Place {
 public:
  static constexpr std::int64_t kSegmentTokens = 16;
  static constexpr std::size_t kSegmentBytes = 4;
  static constexpr std::size_t kMaxBytes = 16 + kBlockTokens / kSegmentTokens * kSegmentBytes;

  Place(const Key& parent, std::span<const std::int32_t> tokens);
  std::span<const std::uint8_t> bytes() const { return {bytes_.data(), size_}; }

  /// The key that continues the chain behind this block: a hash of its place, hence of parent and tokens.
  Key chain_key() const;
  /// The key of a snapshot taken behind these tokens.
  Key snapshot_key() const;

 private:
  std::array<std::uint8_t, kMaxBytes> bytes_{};
  std::size_t size_ = 0;
};

/// The same for a place that is read back from the store.
Key chain_key(std::span<const std::uint8_t> place);
Key snapshot_key(std::span<const std::uint8_t> place);
/// Whose child a place is. `place` must hold at least 16 bytes.
Key parent_of(std::span<const std::uint8_t> place);

inline std::span<const std::uint8_t> bytes_of(const Key& key) { return key.bytes; }

}  // namespace seekline
