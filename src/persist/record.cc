#include "persist/record.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/check.h"

namespace seekline {
namespace {

static_assert(std::endian::native == std::endian::little,
              "records are written in the machine's order, little-endian");

constexpr std::uint32_t kBlockMagic = 0x424c4b53;     // "SKLB"
constexpr std::uint32_t kSnapshotMagic = 0x534c4b53;  // "SKLS"

// The fixed part; the list of stores, the tokens and the payload follow it.
struct FixedHeader {
  std::uint32_t magic, version;
  std::uint64_t header_sum;  // XXH3-64 of the header from the next field on
  std::uint64_t payload_sum, payload_bytes;
  std::uint8_t fingerprint[16], parent[16];
  std::uint64_t first;
  std::uint32_t tokens, stores;
  std::uint32_t part, reserved;
};
static_assert(sizeof(FixedHeader) == 88);
constexpr std::size_t kSummedFrom = offsetof(FixedHeader, payload_sum);

struct StoreEntry {
  std::uint16_t store;
  std::uint8_t row_kind, pow2_scales;
  std::uint32_t width, rows, row_bytes;
  std::uint16_t tail, tokens_per_row;
};
static_assert(sizeof(StoreEntry) == 20);

FixedHeader fixed_of(std::span<const std::uint8_t> bytes) {
  FixedHeader fixed;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  return fixed;
}

StoreEntry entry_of(std::span<const std::uint8_t> bytes, std::size_t index) {
  StoreEntry entry;
  std::memcpy(&entry, bytes.data() + sizeof(FixedHeader) + index * sizeof entry, sizeof entry);
  return entry;
}

std::int64_t header_bytes_of(const FixedHeader& fixed) {
  return static_cast<std::int64_t>(sizeof(FixedHeader) + fixed.stores * sizeof(StoreEntry) +
                                   fixed.tokens * sizeof(std::int32_t));
}

StoreEntry entry_for(const Store& store, std::int64_t rows) {
  return {static_cast<std::uint16_t>(store.id),
          static_cast<std::uint8_t>(store.row.kind),
          static_cast<std::uint8_t>(store.row.pow2_scales),
          static_cast<std::uint32_t>(store.row.width),
          static_cast<std::uint32_t>(rows),
          static_cast<std::uint32_t>(store.row.bytes()),
          static_cast<std::uint16_t>(store.row.tail),
          static_cast<std::uint16_t>(store.tokens_per_row)};
}

}  // namespace

std::vector<RecordRows> record_rows(const CachePlan& plan, const RecordInfo& info) {
  std::vector<RecordRows> list;
  const std::int64_t count = static_cast<std::int64_t>(info.tokens.size());
  const auto add = [&](const Store& store, std::int64_t rows) {
    list.push_back({store.id, rows, store.row.data_bytes(), store.row.scale_bytes()});
  };
  if (info.kind == RecordKind::kBlock) {
    for (const Store& store : plan.stores)
      if (store.growing()) add(store, store.rows_at(count));
  } else {
    for (const StoreId id : snapshot_stores(plan, info.part)) {
      const Store& store = plan.stores[static_cast<std::size_t>(id)];
      add(store, store.rows_at(info.first + count));
    }
  }
  return list;
}

std::int64_t block_bytes(const CachePlan& plan) {
  std::int64_t sum = 0;
  for (const Store& store : plan.stores)
    if (store.growing()) sum += store.rows_at(kBlockTokens) * store.row.bytes();
  return sum;
}

std::int64_t payload_bytes(const std::vector<RecordRows>& rows) {
  std::int64_t sum = 0;
  for (const RecordRows& r : rows) sum += r.bytes();
  return sum;
}

std::vector<std::uint8_t> encode_header(const CachePlan& plan, const RecordInfo& info,
                                        std::uint64_t payload_sum) {
  const std::vector<RecordRows> rows = record_rows(plan, info);
  FixedHeader fixed{};
  fixed.magic = info.kind == RecordKind::kBlock ? kBlockMagic : kSnapshotMagic;
  fixed.version = kStoreFormatVersion;
  fixed.payload_sum = payload_sum;
  fixed.payload_bytes = static_cast<std::uint64_t>(payload_bytes(rows));
  std::memcpy(fixed.fingerprint, info.fingerprint.bytes.data(), sizeof fixed.fingerprint);
  std::memcpy(fixed.parent, info.parent.bytes.data(), sizeof fixed.parent);
  fixed.first = static_cast<std::uint64_t>(info.first);
  fixed.tokens = static_cast<std::uint32_t>(info.tokens.size());
  fixed.stores = static_cast<std::uint32_t>(rows.size());
  fixed.part = info.kind == RecordKind::kSnapshot ? static_cast<std::uint32_t>(info.part) : 0;
  std::vector<std::uint8_t> out(static_cast<std::size_t>(header_bytes_of(fixed)));
  std::memcpy(out.data(), &fixed, sizeof fixed);
  std::uint8_t* at = out.data() + sizeof fixed;
  for (const RecordRows& r : rows) {
    const StoreEntry entry = entry_for(plan.stores[static_cast<std::size_t>(r.store)], r.rows);
    std::memcpy(at, &entry, sizeof entry);
    at += sizeof entry;
  }
  std::memcpy(at, info.tokens.data(), info.tokens.size_bytes());
  fixed.header_sum = XXH3_64bits(out.data() + kSummedFrom, out.size() - kSummedFrom);
  std::memcpy(out.data(), &fixed, sizeof fixed);
  return out;
}

std::optional<std::string> HeaderView::problem(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < sizeof(FixedHeader))
    return fmt::format("is {} bytes long, shorter than a header", bytes.size());
  const FixedHeader fixed = fixed_of(bytes);
  if (fixed.magic != kBlockMagic && fixed.magic != kSnapshotMagic)
    return fmt::format("starts with {:#010x}, which is no record", fixed.magic);
  if (fixed.version != kStoreFormatVersion)
    return fmt::format("has format version {}, and this engine reads version {}", fixed.version,
                       kStoreFormatVersion);
  if (fixed.tokens < 1 || fixed.tokens > kBlockTokens) return fmt::format("claims {} tokens", fixed.tokens);
  if (fixed.stores > 65535 || header_bytes_of(fixed) > static_cast<std::int64_t>(bytes.size()))
    return fmt::format("is shorter than its header of {} bytes", header_bytes_of(fixed));
  const std::size_t summed = static_cast<std::size_t>(header_bytes_of(fixed)) - kSummedFrom;
  if (XXH3_64bits(bytes.data() + kSummedFrom, summed) != fixed.header_sum)
    return "has a header with a wrong checksum";
  if (fixed.part > 1) return fmt::format("is a snapshot of unknown part {}", fixed.part);
  const HeaderView view(bytes);
  if (view.listed_bytes() != view.payload_bytes())
    return fmt::format("lists {} bytes of rows and claims {}", view.listed_bytes(), view.payload_bytes());
  return std::nullopt;
}

RecordKind HeaderView::kind() const {
  return fixed_of(bytes_).magic == kBlockMagic ? RecordKind::kBlock : RecordKind::kSnapshot;
}
SnapshotPart HeaderView::part() const { return static_cast<SnapshotPart>(fixed_of(bytes_).part); }

Key HeaderView::fingerprint() const {
  Key key;
  std::memcpy(key.bytes.data(), fixed_of(bytes_).fingerprint, key.bytes.size());
  return key;
}

Key HeaderView::parent() const {
  Key key;
  std::memcpy(key.bytes.data(), fixed_of(bytes_).parent, key.bytes.size());
  return key;
}

std::int64_t HeaderView::first() const { return static_cast<std::int64_t>(fixed_of(bytes_).first); }
std::int64_t HeaderView::token_count() const { return fixed_of(bytes_).tokens; }
std::int64_t HeaderView::header_bytes() const { return header_bytes_of(fixed_of(bytes_)); }
std::int64_t HeaderView::payload_bytes() const {
  return static_cast<std::int64_t>(fixed_of(bytes_).payload_bytes);
}
std::uint64_t HeaderView::payload_sum() const { return fixed_of(bytes_).payload_sum; }

std::int32_t HeaderView::token(std::int64_t index) const {
  std::int32_t token;
  const std::size_t at = sizeof(FixedHeader) + fixed_of(bytes_).stores * sizeof(StoreEntry);
  std::memcpy(&token, bytes_.data() + at + static_cast<std::size_t>(index) * sizeof token, sizeof token);
  return token;
}

std::vector<std::int32_t> HeaderView::tokens() const {
  std::vector<std::int32_t> list(static_cast<std::size_t>(token_count()));
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = token(static_cast<std::int64_t>(i));
  return list;
}

std::int64_t HeaderView::common_tokens(std::span<const std::int32_t> wanted) const {
  const std::int64_t most = std::min(token_count(), static_cast<std::int64_t>(wanted.size()));
  std::int64_t common = 0;
  while (common < most && token(common) == wanted[static_cast<std::size_t>(common)]) ++common;
  return common;
}

std::int64_t HeaderView::listed_bytes() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < fixed_of(bytes_).stores; ++i) {
    const StoreEntry entry = entry_of(bytes_, i);
    sum += std::uint64_t{entry.rows} * entry.row_bytes;
  }
  return static_cast<std::int64_t>(sum);
}

std::optional<std::string> HeaderView::mismatch(const CachePlan& plan, const Key& fingerprint,
                                                const Key& parent, std::int64_t first) const {
  if (this->fingerprint() != fingerprint) return "belongs to another model";
  if (this->parent() != parent || this->first() != first) return "continues another prefix";
  const std::vector<std::int32_t> list = tokens();
  const RecordInfo info{kind(), part(), fingerprint, parent, first, list};
  const std::vector<RecordRows> rows = record_rows(plan, info);
  if (rows.size() != fixed_of(bytes_).stores) return "has rows of another set of stores";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const StoreEntry want = entry_for(plan.stores[static_cast<std::size_t>(rows[i].store)], rows[i].rows);
    const StoreEntry got = entry_of(bytes_, i);
    if (std::memcmp(&want, &got, sizeof want) != 0) return "has rows of another format";
  }
  return std::nullopt;
}

}  // namespace seekline
