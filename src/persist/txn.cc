// Transactions and cursors of an Environment.
#include <cstring>

#include "core/check.h"
#include "persist/environment.h"
#include "persist/lmdb_pages.h"

namespace seekline {
namespace {

MDB_val val_of(Bytes bytes) { return {bytes.size(), const_cast<std::uint8_t*>(bytes.data())}; }

}  // namespace

bool starts_with(Bytes bytes, Bytes prefix) {
  return bytes.size() >= prefix.size() && std::memcmp(bytes.data(), prefix.data(), prefix.size()) == 0;
}

Txn::Txn(Environment& env, bool write) : env_(env) { txn_ = env.begin(write, map_lock_); }

Txn::~Txn() {
  if (txn_ != nullptr) mdb_txn_abort(txn_);
}

std::optional<Bytes> Txn::get(Table table, Bytes key) const {
  const auto handle = dbi(table);
  if (!handle) return std::nullopt;
  MDB_val k = val_of(key), value{};
  const int code = mdb_get(txn_, *handle, &k, &value);
  if (code == MDB_NOTFOUND) return std::nullopt;
  check_lmdb(code, folder(), "reading");
  return Bytes{static_cast<const std::uint8_t*>(value.mv_data), value.mv_size};
}

MDB_stat Txn::stat(Table table) const {
  MDB_stat stat{};
  if (const auto handle = dbi(table)) check_lmdb(mdb_stat(txn_, *handle, &stat), folder(), "reading");
  return stat;
}

std::int64_t Txn::live_bytes() const {
  std::size_t pages = 0;
  for (std::size_t i = 0; i < kTables; ++i) {
    const MDB_stat s = stat(static_cast<Table>(i));
    pages += s.ms_branch_pages + s.ms_leaf_pages + s.ms_overflow_pages;
  }
  return static_cast<std::int64_t>(pages) * store_page_bytes();
}

std::span<std::uint8_t> WriteTxn::put(Table table, Bytes key, std::int64_t bytes) {
  erase(table, key);  // so that a value always lies on as many pages as it needs
  MDB_val k = val_of(key), value{static_cast<std::size_t>(bytes), nullptr};
  check_lmdb(mdb_put(txn_, *dbi(table), &k, &value, MDB_RESERVE), folder(), "writing");
  return {static_cast<std::uint8_t*>(value.mv_data), value.mv_size};
}

void WriteTxn::put(Table table, Bytes key, Bytes value) {
  const std::span<std::uint8_t> room = put(table, key, static_cast<std::int64_t>(value.size()));
  std::memcpy(room.data(), value.data(), value.size());
}

bool WriteTxn::erase(Table table, Bytes key) {
  const auto there = get(table, key);
  if (!there) return false;
  MDB_val k = val_of(key);
  if (!value_pages_are_sound(k, val_of(*there)))
    throw Error(ErrorCode::kBadFile,
                "prefix store " + folder().string() + ": a page that should be freed is damaged");
  check_lmdb(mdb_del(txn_, *dbi(table), &k, nullptr), folder(), "writing");
  return true;
}

void WriteTxn::commit() {
  MDB_txn* txn = txn_;
  txn_ = nullptr;
  const int code = mdb_txn_commit(txn);
  map_lock_.unlock();
  check_lmdb(code, folder(), "writing");
}

Cursor::Cursor(const Txn& txn, Table table) : folder_(txn.folder()) {
  if (const auto handle = txn.dbi(table))
    check_lmdb(mdb_cursor_open(txn.handle(), *handle, &cursor_), folder_, "reading");
}

Cursor::~Cursor() {
  if (cursor_ != nullptr) mdb_cursor_close(cursor_);
}

bool Cursor::move(MDB_cursor_op op) {
  if (cursor_ == nullptr) return false;
  const int code = mdb_cursor_get(cursor_, &key_, &value_, op);
  if (code == MDB_NOTFOUND) return false;
  check_lmdb(code, folder_, "reading");
  return true;
}

bool Cursor::first() { return move(MDB_FIRST); }
bool Cursor::last() { return move(MDB_LAST); }

bool Cursor::seek(Bytes key) {
  key_ = val_of(key);
  return move(MDB_SET_RANGE);
}

bool Cursor::next() { return move(MDB_NEXT); }
bool Cursor::previous() { return move(MDB_PREV); }

}  // namespace seekline
