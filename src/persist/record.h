// The bytes of a record: a block of rows, or a snapshot of rings (docs/prefix-store.md, "Records").
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/snapshot.h"
#include "persist/keys.h"
#include "seekline/cache_plan.h"

namespace seekline {

/// Raised whenever the bytes of a record or the meaning of its fields change.
inline constexpr std::uint32_t kStoreFormatVersion = 1;

enum class RecordKind : std::uint8_t { kBlock, kSnapshot };

/// What a record is, apart from its payload. Everything here follows from model, tokens and position.
struct RecordInfo {
  RecordKind kind = RecordKind::kBlock;
  SnapshotPart part = SnapshotPart::kEncoder;  ///< snapshots only
  Key fingerprint, parent;
  std::int64_t first = 0;                ///< position of the first of `tokens`
  std::span<const std::int32_t> tokens;  ///< 1 to kBlockTokens
};

/// One store's share of a payload.
struct RecordRows {
  StoreId store = 0;
  std::int64_t rows = 0;
  std::int64_t data_bytes = 0, scale_bytes = 0;  ///< of a row
  std::int64_t bytes() const { return rows * (data_bytes + scale_bytes); }
};

/// The payload of a record, in order: all growing stores of a block, or the rings of a snapshot; each its
/// data plane, then its scale plane.
std::vector<RecordRows> record_rows(const CachePlan& plan, const RecordInfo& info);
/// Payload of a full block.
std::int64_t block_bytes(const CachePlan& plan);
std::int64_t payload_bytes(const std::vector<RecordRows>& rows);

/// Header of a record whose payload has the given length and XXH3-64.
std::vector<std::uint8_t> encode_header(const CachePlan& plan, const RecordInfo& info,
                                        std::uint64_t payload_sum);

/// A header that lies in the store. `bytes` may hold part of the payload behind it. The view checks nothing
/// by itself.
class HeaderView {
 public:
  /// What is wrong with the header as such: length, magic, version, checksum, counts. Nothing else may be
  /// asked of a header with a problem.
  static std::optional<std::string> problem(std::span<const std::uint8_t> bytes);

  explicit HeaderView(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  RecordKind kind() const;
  SnapshotPart part() const;
  Key fingerprint() const;
  Key parent() const;
  std::int64_t first() const;
  std::int64_t token_count() const;
  std::int32_t token(std::int64_t index) const;
  std::vector<std::int32_t> tokens() const;
  /// Leading tokens that are those of `wanted`.
  std::int64_t common_tokens(std::span<const std::int32_t> wanted) const;
  std::int64_t header_bytes() const;
  std::int64_t payload_bytes() const;
  std::uint64_t payload_sum() const;
  /// Sum of the rows that the header lists, in bytes; what payload_bytes() must be.
  std::int64_t listed_bytes() const;

  /// Whether this is the header that encode_header would give for `plan` and the tokens stored here, whatever
  /// the payload; where not, what differs.
  std::optional<std::string> mismatch(const CachePlan& plan, const Key& fingerprint, const Key& parent,
                                      std::int64_t first) const;

 private:
  std::span<const std::uint8_t> bytes_;
};

}  // namespace seekline
