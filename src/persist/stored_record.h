// Records in the tables of a store, cut into pieces of at most 56 pages.
//
// LMDB keeps a value on consecutive pages. In a store that has been full for a while, long runs of free pages
// are rare; pieces of one size fit where pieces of that size were freed. A block of V4.1 is exactly one
// piece.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "persist/environment.h"
#include "persist/record.h"

namespace seekline {

inline constexpr std::int64_t kPieceBytes = 56 * 4096 - 16;

/// The table of a kind's first pieces, and the key under which its further pieces and its last use are kept.
Table table_of(RecordKind kind);
Key record_key(RecordKind kind, Bytes place);

/// Writes header and payload (the parts one after the other).
void put_record(WriteTxn& txn, RecordKind kind, Bytes place, Bytes header, const std::vector<Bytes>& payload);
/// Erases a record with its pieces and its time of use, whatever state they are in; false where there was
/// none.
bool erase_record(WriteTxn& txn, RecordKind kind, Bytes place);

/// A record where it lies; valid as long as its transaction.
class StoredRecord {
 public:
  /// Nothing at this place: nullopt. `problem` says what is wrong with a record that is there.
  static std::optional<StoredRecord> find(const Txn& txn, RecordKind kind, Bytes place, std::string& problem);

  const HeaderView& header() const { return header_; }
  /// Looks up the further pieces; asks the kernel to read all of them ahead. What is wrong with them, or
  /// nothing.
  std::optional<std::string> load(const Txn& txn);
  /// After load(): what is wrong with the payload's checksum, or nothing.
  std::optional<std::string> check_payload() const;
  /// After load(): bytes [from, from + count) of the payload.
  void copy_payload(std::int64_t from, std::int64_t count, std::uint8_t* out) const;
  /// Pages of the store that the record takes, in bytes.
  std::int64_t stored_bytes() const;

 private:
  StoredRecord(RecordKind kind, Bytes place, Bytes first)
      : kind_(kind), place_(place), pieces_{first}, header_(first) {}
  std::int64_t total_bytes() const { return header_.header_bytes() + header_.payload_bytes(); }

  RecordKind kind_;
  Bytes place_;
  std::vector<Bytes> pieces_;
  HeaderView header_;
};

/// Erases the further pieces of a record; for pieces whose record is gone.
void erase_pieces(WriteTxn& txn, const Key& record);

}  // namespace seekline
