// What people do with a store: look, check, tidy, remove. No model is needed for any of it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "persist/keys.h"

namespace seekline {

struct StoreModel {
  Key fingerprint;
  std::string description;  ///< JSON, see ModelIdentity; empty where the store does not know it
  std::int64_t chains = 0;  ///< blocks that nothing continues
  std::int64_t blocks = 0, tokens = 0, snapshots = 0;
  std::int64_t bytes = 0;  ///< pages of its records
  std::int64_t longest_tokens = 0;
  std::uint64_t last_used_ms = 0;  ///< since 1970
};

struct StoreChain {
  Key key;  ///< of its last block
  Key fingerprint;
  std::int64_t tokens = 0;
  std::uint64_t last_used_ms = 0;
  std::vector<std::int64_t> snapshots;  ///< positions within its last block
};

struct StoreFigures {
  std::int64_t file_bytes = 0, live_bytes = 0;  ///< the file; pages that hold something
  std::int64_t blocks = 0, snapshots = 0, models = 0;
  std::int64_t record_bytes = 0;  ///< pages of blocks and snapshots
  std::int64_t index_bytes = 0;   ///< live_bytes - record_bytes: keys, times of use, tables
  int readers = 0;                ///< that read just now, this one included
};

struct StoreCheck {
  std::int64_t blocks = 0, snapshots = 0;  ///< sound ones
  std::int64_t erased = 0;
  std::vector<std::string> problems;  ///< one sentence each
};

struct StoreTidied {
  std::int64_t unreachable_blocks = 0, unreachable_snapshots = 0, dangling = 0;
  std::int64_t evicted_blocks = 0, evicted_snapshots = 0;
  std::int64_t live_bytes = 0;
};

/// Models in order of last use, the latest first. All of these throw Error as Environment::open does.
std::vector<StoreModel> list_models(const std::filesystem::path& folder);
/// Chains in order of last use, the latest first; of one model where `fingerprint` is given (its first hex
/// digits).
std::vector<StoreChain> list_chains(const std::filesystem::path& folder, const std::string& fingerprint = {});
StoreFigures store_figures(const std::filesystem::path& folder);
/// Reads every byte: page structure, headers, checksums, places, parents. `erase`: takes out what is not
/// sound.
StoreCheck verify_store(const std::filesystem::path& folder, bool erase);
/// Erases what no lookup can reach any more, then evicts down to `limit_bytes` where that is given.
StoreTidied tidy_store(const std::filesystem::path& folder, std::optional<std::int64_t> limit_bytes);
/// Removes the whole store, in whatever state it is; false where there was none. Processes that have it open
/// go on with what they have; their writes are lost.
bool remove_store(const std::filesystem::path& folder);
/// Removes all records of the one model, or the one block with everything that continues it, whose key begins
/// with `hex`. Returns the records removed. Throws Error(kUsage) where nothing or more than one begins so.
std::int64_t remove_from_store(const std::filesystem::path& folder, const std::string& hex);

}  // namespace seekline
