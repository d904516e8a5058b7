// The LMDB environment of one store folder: opened once a process, checked before use, grown when needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <vector>

#include <lmdb.h>

#include "persist/lmdb_error.h"

namespace seekline {

using Bytes = std::span<const std::uint8_t>;

/// The tables of a store (docs/prefix-store.md, "Tables").
enum class Table : std::uint8_t {
  kAbout,      ///< "format" -> the store's format version
  kModels,     ///< fingerprint -> JSON that says what it was made from
  kBlocks,     ///< place -> first piece of a block record
  kSnapshots,  ///< place -> first piece of a snapshot record
  kPieces,     ///< key of a record, number of the piece -> the piece
  kUsed,       ///< key of a record -> when it was last used
};
inline constexpr std::size_t kTables = 6;

struct EnvironmentOptions {
  bool read_only = false;
  std::int64_t map_bytes = 0;  ///< room to start with; 0: what is there
};

class ReadTxn;
class WriteTxn;

/// Thread-safe. Two in one process on the same folder are one: open() returns what is open already.
class Environment {
 public:
  /// Makes the folder and its tables where they are missing, unless read_only. A store that cannot be written
  /// to (rights, a read-only file system) opens read-only and says why. Throws Error(kNotFound | kIo |
  /// kBadFile | kUnsupported): what is there is not a store, is damaged, or has another format version.
  static std::shared_ptr<Environment> open(const std::filesystem::path& folder,
                                           const EnvironmentOptions& options);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  bool read_only() const { return read_only_; }
  /// Why it is read-only though it was not opened so; empty otherwise.
  const std::string& why_read_only() const { return why_read_only_; }

  std::int64_t map_bytes() const;
  std::int64_t file_bytes() const;
  /// Makes the map larger. Waits for the transactions of this process.
  void grow_map(std::int64_t map_bytes);
  /// Frees the reader slots of processes that are gone.
  void clear_dead_readers();
  MDB_env* handle() const { return env_; }

 private:
  friend class Txn;
  Environment(std::filesystem::path folder, const EnvironmentOptions& options);
  void open_env(const EnvironmentOptions& options);
  int try_open(unsigned flags, std::int64_t map_bytes);
  void check_trees();
  void open_tables();
  bool find_tables(unsigned flags);
  /// `lock` holds the map's size still for as long as the transaction lives.
  MDB_txn* begin(bool write, std::shared_lock<std::shared_mutex>& lock);

  const std::filesystem::path folder_;
  std::string why_read_only_;
  bool read_only_ = false;
  MDB_env* env_ = nullptr;
  std::optional<MDB_dbi> tables_[kTables];
  std::shared_mutex map_mutex_;  // shared: a transaction is open; exclusive: the map changes its size
};

/// What read and write transactions have in common. Used by the thread that made it.
class Txn {
 public:
  Txn(const Txn&) = delete;
  Txn& operator=(const Txn&) = delete;

  /// Valid until the transaction ends or writes.
  std::optional<Bytes> get(Table table, Bytes key) const;
  MDB_stat stat(Table table) const;
  /// Bytes of all pages in use: tables and their payloads, without free pages.
  std::int64_t live_bytes() const;
  const std::filesystem::path& folder() const { return env_.folder(); }
  MDB_txn* handle() const { return txn_; }

 protected:
  friend class Cursor;
  Txn(Environment& env, bool write);
  ~Txn();
  /// Not there: a read-only store without tables yet.
  std::optional<MDB_dbi> dbi(Table table) const { return env_.tables_[static_cast<std::size_t>(table)]; }

  Environment& env_;
  std::shared_lock<std::shared_mutex> map_lock_;  // released after the transaction has ended
  MDB_txn* txn_ = nullptr;
};

/// A snapshot of the store. Keep it short: pages that it may read cannot be used again.
class ReadTxn : public Txn {
 public:
  explicit ReadTxn(Environment& env) : Txn(env, false) {}
};

/// The one writer among all processes; begin waits for the others. What is not committed never happened.
class WriteTxn : public Txn {
 public:
  explicit WriteTxn(Environment& env) : Txn(env, true) {}
  /// Room for a value that the caller fills before the next call. Replaces what was there. Throws MapFull.
  std::span<std::uint8_t> put(Table table, Bytes key, std::int64_t bytes);
  void put(Table table, Bytes key, Bytes value);
  /// Whether there was something to erase. Throws MapFull, and Error(kBadFile) where the value's own pages
  /// are damaged.
  bool erase(Table table, Bytes key);
  /// Throws MapFull or Error(kIo).
  void commit();
};

/// Walks a table in the order of its keys.
class Cursor {
 public:
  Cursor(const Txn& txn, Table table);
  ~Cursor();
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  bool first();
  /// To the first key that is not before `key`.
  bool seek(Bytes key);
  bool next();
  bool previous();
  bool last();
  Bytes key() const { return {static_cast<const std::uint8_t*>(key_.mv_data), key_.mv_size}; }
  Bytes value() const { return {static_cast<const std::uint8_t*>(value_.mv_data), value_.mv_size}; }

 private:
  bool move(MDB_cursor_op op);

  const std::filesystem::path folder_;
  MDB_cursor* cursor_ = nullptr;
  MDB_val key_{}, value_{};
};

bool starts_with(Bytes bytes, Bytes prefix);

}  // namespace seekline
