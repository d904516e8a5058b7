#include "persist/environment.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "persist/lmdb_pages.h"
#include "persist/page_walk.h"
#include "persist/record.h"

namespace seekline {
namespace {

constexpr const char* kTableNames[kTables] = {"about", "models", "blocks", "snapshots", "pieces", "used"};
constexpr unsigned kReaders = 510;
constexpr mode_t kFileMode = 0644;
constexpr off_t kLockFileBytes = 64 << 10;  // kReaders slots of 64 bytes, and room

Bytes format_key() {
  static constexpr char kName[] = "format";
  return {reinterpret_cast<const std::uint8_t*>(kName), sizeof kName - 1};
}

class FileHandle {
 public:
  FileHandle(const std::filesystem::path& path, int flags)
      : fd_(::open(path.c_str(), flags | O_CLOEXEC, kFileMode)) {}
  ~FileHandle() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileHandle(const FileHandle&) = delete;
  FileHandle& operator=(const FileHandle&) = delete;
  explicit operator bool() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  int fd_;
};

// Processes make and open a store one at a time, so that nobody sees half of a new file.
class FolderLock {
 public:
  explicit FolderLock(const std::filesystem::path& folder) : handle_(folder, O_RDONLY | O_DIRECTORY) {
    if (!handle_ || ::flock(handle_.get(), LOCK_EX) != 0)
      throw Error(
          errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("prefix store {}: cannot be opened: {}", folder.string(), std::strerror(errno)));
  }

 private:
  FileHandle handle_;
};

// What this process has open. Closing one handle of a lock file gives up the locks of all others, so that a
// folder must be closed before it is opened again.
struct Registry {
  std::mutex mutex;
  std::condition_variable closed;
  std::map<std::filesystem::path, std::weak_ptr<Environment>> open;
};

Registry& registry() {
  static Registry& registry = *new Registry;  // outlives every store
  return registry;
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed)
    throw Error(ErrorCode::kIo, fmt::format("prefix store {}: the folder cannot be made: {}", folder.string(),
                                            failed.message()));
}

Error damaged(const std::filesystem::path& folder, const std::string& what) {
  return {ErrorCode::kBadFile,
          fmt::format(
              "prefix store {} is damaged: {}; nothing of it is used. `seekline cache rm --all --store {}` "
              "removes it, and it is made anew",
              folder.string(), what, folder.string())};
}

// LMDB writes to its lock file through a mapping, where a full disk is a SIGBUS: it gets its blocks
// beforehand. Nobody in this process has the file open yet.
void reserve_lock_file(const std::filesystem::path& folder) {
  const FileHandle file(folder / "lock.mdb", O_RDWR | O_CREAT);
  if (!file) return;  // LMDB says why
  const int code = ::posix_fallocate(file.get(), 0, kLockFileBytes);
  if (code != 0)
    throw Error(ErrorCode::kIo, fmt::format("prefix store {}: there is no room for lock.mdb: {}",
                                            folder.string(), std::strerror(code)));
}

// A data file that no commit ever finished is started anew; one that is damaged is refused before LMDB maps
// it.
void check_data_file(const std::filesystem::path& folder, bool read_only) {
  const std::filesystem::path path = folder / "data.mdb";
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    if (read_only)
      throw Error(ErrorCode::kNotFound, fmt::format("prefix store {}: there is no store", folder.string()));
    return;
  }
  if (info.st_size == 0) return;
  if (info.st_size < 2 * store_page_bytes()) {
    if (read_only) throw damaged(folder, "its file is shorter than its first two pages");
    if (::truncate(path.c_str(), 0) != 0)
      throw damaged(folder,
                    fmt::format("its file is too short and cannot be emptied ({})", std::strerror(errno)));
    return;
  }
  const FileHandle file(path, O_RDONLY);
  if (!file)
    throw Error(ErrorCode::kIo, fmt::format("{}: cannot be read: {}", path.string(), std::strerror(errno)));
  if (const auto problem = meta_problem(file.get())) throw damaged(folder, *problem);
}

}  // namespace

std::shared_ptr<Environment> Environment::open(const std::filesystem::path& folder,
                                               const EnvironmentOptions& options) {
  if (!options.read_only) make_folder(folder);
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::canonical(folder, failed);
  if (failed)
    throw Error(ErrorCode::kNotFound,
                fmt::format("prefix store {}: cannot be opened: {}", folder.string(), failed.message()));
  Registry& all = registry();
  std::unique_lock lock(all.mutex);
  all.closed.wait(lock, [&] {
    const auto entry = all.open.find(path);
    return entry == all.open.end() || !entry->second.expired();
  });
  if (const auto entry = all.open.find(path); entry != all.open.end()) {
    std::shared_ptr<Environment> there = entry->second.lock();
    if (there->read_only_ && there->why_read_only_.empty() && !options.read_only)
      throw Error(ErrorCode::kUsage,
                  fmt::format("prefix store {}: is open for reading only in this process", folder.string()));
    if (!there->read_only_ && options.map_bytes > there->map_bytes()) there->grow_map(options.map_bytes);
    return there;
  }
  std::shared_ptr<Environment> made(new Environment(path, options));
  all.open[path] = made;
  return made;
}

Environment::Environment(std::filesystem::path folder, const EnvironmentOptions& options)
    : folder_(std::move(folder)), read_only_(options.read_only) {
  const FolderLock lock(folder_);
  try {
    check_data_file(folder_, read_only_);
    open_env(options);
    check_trees();
    open_tables();
  } catch (const MapFull&) {
    mdb_env_close(env_);
    throw Error(ErrorCode::kLimit,
                fmt::format("prefix store {}: its map is too small for its tables", folder_.string()));
  } catch (...) {
    if (env_ != nullptr) mdb_env_close(env_);
    throw;
  }
}

Environment::~Environment() {
  mdb_env_close(env_);
  const std::lock_guard lock(registry().mutex);
  registry().open.erase(folder_);
  registry().closed.notify_all();
}

int Environment::try_open(unsigned flags, std::int64_t map_bytes) {
  if (env_ != nullptr) mdb_env_close(env_);
  env_ = nullptr;
  check_lmdb(mdb_env_create(&env_), folder_, "opening");
  check_lmdb(mdb_env_set_maxdbs(env_, kTables), folder_, "opening");
  check_lmdb(mdb_env_set_maxreaders(env_, kReaders), folder_, "opening");
  if (map_bytes > 0)
    check_lmdb(mdb_env_set_mapsize(env_, static_cast<std::size_t>(map_bytes)), folder_, "opening");
  return mdb_env_open(env_, folder_.c_str(), flags | MDB_NOTLS, kFileMode);
}

void Environment::open_env(const EnvironmentOptions& options) {
  if (!read_only_) {
    reserve_lock_file(folder_);
    // NOMETASYNC: a power cut may undo the last commit, but never damages the ones before it.
    const int code = try_open(MDB_NOMETASYNC, options.map_bytes);
    if (code == MDB_SUCCESS) {
      clear_dead_readers();
      return;
    }
    const bool refused = code == EACCES || code == EROFS || code == EPERM;
    if (!refused || !std::filesystem::exists(folder_ / "data.mdb"))
      throw lmdb_error(code, folder_, "opening");
    read_only_ = true;
    why_read_only_ =
        fmt::format("the prefix store {} cannot be written to: {}", folder_.string(), mdb_strerror(code));
  }
  const int code = try_open(MDB_RDONLY, 0);
  if (code == EACCES)
    throw Error(ErrorCode::kIo,
                fmt::format("prefix store {}: cannot be opened: {}; even readers need to write to its "
                            "lock.mdb, so that writers do not overwrite what they read",
                            folder_.string(), mdb_strerror(code)));
  check_lmdb(code, folder_, "opening");
}

void Environment::check_trees() {
  const ReadTxn txn(*this);
  if (const auto problem = tree_problem(txn.handle())) throw damaged(folder_, *problem);
}

void Environment::open_tables() {
  if (!find_tables(0)) {
    if (read_only_) return;
    if (!find_tables(MDB_CREATE))
      throw Error(ErrorCode::kInternal, "a prefix store's tables could not be made");
  }
  const ReadTxn read(*this);
  const auto found = read.get(Table::kAbout, format_key());
  std::uint32_t version = 0;
  if (found && found->size() == sizeof version) std::memcpy(&version, found->data(), sizeof version);
  if (version != kStoreFormatVersion)
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format(
            "prefix store {} has format version {}, and this engine reads version {}; `seekline cache rm "
            "--all --store {}` removes it, and it is made anew",
            folder_.string(), version, kStoreFormatVersion, folder_.string()));
}

bool Environment::find_tables(unsigned flags) {
  std::shared_lock<std::shared_mutex> lock;
  MDB_txn* txn = begin(flags != 0, lock);
  std::optional<MDB_dbi> found[kTables];
  int code = MDB_SUCCESS;
  for (std::size_t i = 0; i < kTables && code == MDB_SUCCESS; ++i) {
    MDB_dbi dbi = 0;
    code = mdb_dbi_open(txn, kTableNames[i], flags, &dbi);
    if (code == MDB_SUCCESS) found[i] = dbi;
  }
  if (code == MDB_SUCCESS && flags != 0) {
    std::uint32_t version = kStoreFormatVersion;
    MDB_val key{format_key().size(), const_cast<std::uint8_t*>(format_key().data())},
        value{sizeof version, &version};
    code = mdb_put(txn, *found[static_cast<std::size_t>(Table::kAbout)], &key, &value, 0);
  }
  if (code != MDB_SUCCESS) {
    mdb_txn_abort(txn);
    if (code == MDB_NOTFOUND) return false;
    check_lmdb(code, folder_, "opening its tables");
  }
  check_lmdb(mdb_txn_commit(txn), folder_,
             "opening its tables");  // handles outlive a transaction that commits
  std::copy(std::begin(found), std::end(found), tables_);
  return true;
}

MDB_txn* Environment::begin(bool write, std::shared_lock<std::shared_mutex>& lock) {
  for (;;) {
    lock = std::shared_lock(map_mutex_);
    MDB_txn* txn = nullptr;
    const int code = mdb_txn_begin(env_, nullptr, write ? 0 : MDB_RDONLY, &txn);
    if (code == MDB_SUCCESS) return txn;
    lock.unlock();
    if (code != MDB_MAP_RESIZED) throw lmdb_error(code, folder_, write ? "writing" : "reading");
    grow_map(0);  // another process made the store larger: its size is taken over
  }
}

std::int64_t Environment::map_bytes() const {
  MDB_envinfo info{};
  mdb_env_info(env_, &info);
  return static_cast<std::int64_t>(info.me_mapsize);
}

std::int64_t Environment::file_bytes() const {
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(folder_ / "data.mdb", failed);
  return failed ? 0 : static_cast<std::int64_t>(bytes);
}

void Environment::grow_map(std::int64_t map_bytes) {
  const std::unique_lock lock(map_mutex_);
  check_lmdb(mdb_env_set_mapsize(env_, static_cast<std::size_t>(map_bytes)), folder_, "growing the map");
}

void Environment::clear_dead_readers() {
  int dead = 0;
  mdb_reader_check(env_, &dead);
}
}  // namespace seekline
