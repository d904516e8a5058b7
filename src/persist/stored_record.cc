#include "persist/stored_record.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>
#include <xxhash.h>

#include "core/check.h"
#include "core/mapped_file.h"
#include "persist/lmdb_pages.h"

namespace seekline {
namespace {

// Number of a piece in its key: two bytes, high one first, from 1.
constexpr std::size_t kPieceKeyBytes = 18;
std::array<std::uint8_t, kPieceKeyBytes> piece_key(const Key& record, std::int64_t number) {
  std::array<std::uint8_t, kPieceKeyBytes> key{};
  std::copy(record.bytes.begin(), record.bytes.end(), key.begin());
  key[16] = static_cast<std::uint8_t>(number >> 8);
  key[17] = static_cast<std::uint8_t>(number);
  return key;
}

std::int64_t pieces_of(std::int64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

// Hands out the bytes of a record, part by part, to pieces of any size.
class PartReader {
 public:
  explicit PartReader(std::vector<Bytes> parts) : parts_(std::move(parts)) {}

  void read(std::span<std::uint8_t> out) {
    while (!out.empty()) {
      const std::size_t count = std::min(out.size(), parts_[part_].size() - at_);
      if (count > 0) std::memcpy(out.data(), parts_[part_].data() + at_, count);
      out = out.subspan(count);
      at_ += count;
      if (at_ == parts_[part_].size()) {
        ++part_;
        at_ = 0;
      }
    }
  }

 private:
  std::vector<Bytes> parts_;
  std::size_t part_ = 0, at_ = 0;
};

}  // namespace

Table table_of(RecordKind kind) { return kind == RecordKind::kBlock ? Table::kBlocks : Table::kSnapshots; }

Key record_key(RecordKind kind, Bytes place) {
  return kind == RecordKind::kBlock ? chain_key(place) : snapshot_key(place);
}

void put_record(WriteTxn& txn, RecordKind kind, Bytes place, Bytes header,
                const std::vector<Bytes>& payload) {
  const Key key = record_key(kind, place);
  erase_pieces(txn, key);
  std::vector<Bytes> parts{header};
  parts.insert(parts.end(), payload.begin(), payload.end());
  std::int64_t left = 0;
  for (const Bytes part : parts) left += static_cast<std::int64_t>(part.size());
  PartReader reader(std::move(parts));
  for (std::int64_t number = 0; left > 0; ++number) {
    const std::int64_t bytes = std::min(left, kPieceBytes);
    SEEKLINE_CHECK(number < 65536, "a record has at most 65,536 pieces");
    reader.read(number == 0 ? txn.put(table_of(kind), place, bytes)
                            : txn.put(Table::kPieces, piece_key(key, number), bytes));
    left -= bytes;
  }
}

void erase_pieces(WriteTxn& txn, const Key& record) {
  std::vector<std::array<std::uint8_t, kPieceKeyBytes>> keys;
  {
    Cursor cursor(txn, Table::kPieces);
    for (bool there = cursor.seek(bytes_of(record)); there && starts_with(cursor.key(), bytes_of(record));
         there = cursor.next()) {
      if (cursor.key().size() != kPieceKeyBytes) continue;
      std::copy_n(cursor.key().begin(), kPieceKeyBytes, keys.emplace_back().begin());
    }
  }
  for (const auto& key : keys) txn.erase(Table::kPieces, key);
}

bool erase_record(WriteTxn& txn, RecordKind kind, Bytes place) {
  const std::vector<std::uint8_t> own(place.begin(),
                                      place.end());  // `place` may lie in a page that changes now
  const Key key = record_key(kind, own);
  erase_pieces(txn, key);
  txn.erase(Table::kUsed, bytes_of(key));
  return txn.erase(table_of(kind), own);
}

std::optional<StoredRecord> StoredRecord::find(const Txn& txn, RecordKind kind, Bytes place,
                                               std::string& problem) {
  problem.clear();
  const auto first = txn.get(table_of(kind), place);
  if (!first) return std::nullopt;
  StoredRecord record(kind, place, *first);
  if (const auto wrong = HeaderView::problem(*first)) {
    problem = *wrong;
  } else if (record.header_.kind() != kind) {
    problem = "is a record of another kind";
  } else if (static_cast<std::int64_t>(first->size()) != std::min(record.total_bytes(), kPieceBytes)) {
    problem = fmt::format("is {} bytes long and should be {}", first->size(),
                          std::min(record.total_bytes(), kPieceBytes));
  }
  return record;
}

std::optional<std::string> StoredRecord::load(const Txn& txn) {
  pieces_.resize(1);
  const Key key = record_key(kind_, place_);
  std::int64_t left = total_bytes() - static_cast<std::int64_t>(pieces_[0].size());
  for (std::int64_t number = 1; left > 0; ++number) {
    const auto piece = txn.get(Table::kPieces, piece_key(key, number));
    if (!piece || static_cast<std::int64_t>(piece->size()) != std::min(left, kPieceBytes))
      return fmt::format("has a missing or cut piece {} of {}", number + 1, pieces_of(total_bytes()));
    pieces_.push_back(*piece);
    left -= static_cast<std::int64_t>(piece->size());
  }
  for (const Bytes piece : pieces_) map_will_need(piece.data(), static_cast<std::int64_t>(piece.size()));
  return std::nullopt;
}

std::optional<std::string> StoredRecord::check_payload() const {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state(XXH3_createState(), &XXH3_freeState);
  XXH3_64bits_reset(state.get());
  std::size_t skip = static_cast<std::size_t>(header_.header_bytes());
  for (const Bytes piece : pieces_) {
    XXH3_64bits_update(state.get(), piece.data() + skip, piece.size() - skip);
    skip = 0;
  }
  if (XXH3_64bits_digest(state.get()) != header_.payload_sum()) return "has rows with a wrong checksum";
  return std::nullopt;
}

void StoredRecord::copy_payload(std::int64_t from, std::int64_t count, std::uint8_t* out) const {
  std::int64_t at = header_.header_bytes() + from;
  while (count > 0) {
    const Bytes piece = pieces_[static_cast<std::size_t>(at / kPieceBytes)];
    const std::int64_t offset = at % kPieceBytes;
    const std::int64_t bytes = std::min(count, static_cast<std::int64_t>(piece.size()) - offset);
    std::memcpy(out, piece.data() + offset, static_cast<std::size_t>(bytes));
    out += bytes;
    at += bytes;
    count -= bytes;
  }
}

std::int64_t StoredRecord::stored_bytes() const {
  std::int64_t sum = 0;
  const std::int64_t total = total_bytes();
  for (std::int64_t left = total; left > 0; left -= kPieceBytes) {
    const std::int64_t bytes = std::min(left, kPieceBytes);
    const std::int64_t key_bytes = left == total ? static_cast<std::int64_t>(place_.size()) : kPieceKeyBytes;
    const std::int64_t pages = value_pages(key_bytes, bytes);
    sum += pages > 0 ? pages * store_page_bytes() : bytes;
  }
  return sum;
}

}  // namespace seekline
