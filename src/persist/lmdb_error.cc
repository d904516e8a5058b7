#include "persist/lmdb_error.h"

#include <cerrno>

#include <fmt/format.h>
#include <lmdb.h>

namespace seekline {

Error lmdb_error(int code, const std::filesystem::path& folder, const std::string& doing) {
  ErrorCode kind = ErrorCode::kIo;
  switch (code) {
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
    case MDB_VERSION_MISMATCH:
    case MDB_INCOMPATIBLE:
      kind = ErrorCode::kBadFile;
      break;
    case MDB_READERS_FULL:
      kind = ErrorCode::kLimit;
      break;
    case ENOENT:
      kind = ErrorCode::kNotFound;
      break;
    default:
      break;
  }
  return {kind, fmt::format("prefix store {}: {} failed: {}", folder.string(), doing, mdb_strerror(code))};
}

void check_lmdb(int code, const std::filesystem::path& folder, const std::string& doing) {
  if (code == MDB_SUCCESS) return;
  if (code == MDB_MAP_FULL) throw MapFull{};
  throw lmdb_error(code, folder, doing);
}

}  // namespace seekline
