#include "persist/keys.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/check.h"

namespace seekline {
namespace {

// Seeds of the hashes, part of the format.
constexpr std::uint64_t kChainSeed = 0x6b6c62;
constexpr std::uint64_t kSnapshotSeed = 0x706e73;

}  // namespace

std::string Key::hex() const {
  std::string text;
  for (const std::uint8_t byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

Key key_of(std::span<const std::uint8_t> bytes, std::uint64_t seed) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_withSeed(bytes.data(), bytes.size(), seed));
  Key key;
  std::memcpy(key.bytes.data(), canonical.digest, key.bytes.size());
  return key;
}

std::size_t KeyHash::operator()(const Key& key) const {
  std::size_t first;
  std::memcpy(&first, key.bytes.data(), sizeof first);
  return first;
}

Place::Place(const Key& parent, std::span<const std::int32_t> tokens) {
  SEEKLINE_CHECK(!tokens.empty() && tokens.size() <= static_cast<std::size_t>(kBlockTokens),
                 "a place is made of the tokens of at most one block");
  std::copy(parent.bytes.begin(), parent.bytes.end(), bytes_.begin());
  size_ = parent.bytes.size();
  while (!tokens.empty()) {
    const auto segment = tokens.first(std::min(tokens.size(), static_cast<std::size_t>(kSegmentTokens)));
    const std::uint64_t hash = XXH3_64bits(segment.data(), segment.size_bytes());
    for (std::size_t i = 0; i < kSegmentBytes; ++i)
      bytes_[size_++] = static_cast<std::uint8_t>(hash >> (56 - 8 * i));
    tokens = tokens.subspan(segment.size());
  }
}

Key Place::chain_key() const { return seekline::chain_key(bytes()); }
Key Place::snapshot_key() const { return seekline::snapshot_key(bytes()); }

Key chain_key(std::span<const std::uint8_t> place) { return key_of(place, kChainSeed); }
Key snapshot_key(std::span<const std::uint8_t> place) { return key_of(place, kSnapshotSeed); }

Key parent_of(std::span<const std::uint8_t> place) {
  SEEKLINE_CHECK(place.size() >= 16, "a place starts with its parent's key");
  Key key;
  std::copy_n(place.begin(), key.bytes.size(), key.bytes.begin());
  return key;
}

}  // namespace seekline
