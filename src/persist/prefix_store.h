// Computed prefixes on disk: found by their tokens, put back without changing a bit (docs/prefix-store.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/sequence_cache.h"
#include "persist/chain.h"
#include "persist/model_identity.h"
#include "persist/write_behind.h"

namespace seekline {

struct PrefixStoreOptions {
  std::filesystem::path folder;
  std::int64_t limit_bytes = std::int64_t{32} << 30;   ///< of the store; at least kLeastStoreBytes
  std::int64_t queue_bytes = std::int64_t{256} << 20;  ///< memory that unwritten rows may keep
  bool read_only = false;
};
inline constexpr std::int64_t kLeastStoreBytes = std::int64_t{1} << 20;

/// What the store holds of a sequence, at the time of the lookup.
class PrefixHit {
 public:
  /// Rows of growing stores can be restored for this many tokens, or any fewer.
  std::int64_t length() const { return chain_.length; }
  /// Why not for all tokens; empty where they are.
  const std::string& why_not_more() const { return chain_.why_not_more; }
  /// Position of the snapshot that was asked for; 0 where there is none.
  std::int64_t snapshot_position() const { return snapshot_ ? snapshot_->position() : 0; }
  SnapshotPart snapshot_part() const { return snapshot_ ? snapshot_->part : SnapshotPart::kEncoder; }

 private:
  friend class PrefixStore;
  std::vector<std::int32_t> tokens_;
  Chain chain_;
  std::optional<ChainSnapshot> snapshot_;
};

struct PrefixRestored {
  std::int64_t length = 0;  ///< of the cache now
  std::string why_not_all;  ///< empty where it is what was asked for
};

struct PrefixStored {
  std::int64_t blocks_there = 0;   ///< full blocks that the store has already, or that wait for the writer
  std::int64_t blocks_queued = 0;  ///< full blocks that will be written
  bool partial_queued = false;     ///< the tokens behind the last full block
  bool snapshot_queued = false;
  std::string why_not_all;  ///< empty where nothing was left out
};

struct PrefixStoreStats {
  std::int64_t lookups = 0, tokens_found = 0, tokens_asked = 0;
  WriteStats write;
};

/// The prefixes of one model in one store folder. Several processes, and several models in one process, may
/// use a folder at once. Thread-safe. Only open() throws for reasons of the store's: later, whatever is wrong
/// with it is a miss with a reason.
///
/// Store only what is a function of the tokens: never the rows of a cache that went on after a bounded
/// replay.
class PrefixStore {
 public:
  /// Throws Error(kNotFound | kIo | kBadFile | kUnsupported | kUsage), see Environment::open.
  static std::unique_ptr<PrefixStore> open(const Model& model, const PrefixStoreOptions& options);
  /// The same for a plan and an identity that the caller has made.
  PrefixStore(const CachePlan& plan, const ModelIdentity& identity, const PrefixStoreOptions& options);
  ~PrefixStore();

  /// The longest stored prefix of `tokens`, and the last snapshot of at least `part` along it at a position
  /// of at most `snapshot_at_most`. Reads headers only: microseconds a block.
  PrefixHit lookup(std::span<const std::int32_t> tokens, SnapshotPart part = SnapshotPart::kAll,
                   std::int64_t snapshot_at_most = INT64_MAX);

  /// Appends tokens and rows of growing stores to `cache` up to `length` tokens, at most hit.length(). The
  /// cache's tokens must be a prefix of those looked up. Every record's checksum is compared before any of
  /// its rows is copied; at the first that is not sound or gone, the restore ends with the tokens before it.
  /// Rings are not touched. Throws Error(kLimit) where the cache's pages find no room.
  PrefixRestored restore(const PrefixHit& hit, std::int64_t length, SequenceCache& cache);

  /// Puts the rings of the hit's snapshot back. False, with a reason, where it is gone or not sound; then the
  /// rings are as they were.
  bool restore_snapshot(const PrefixHit& hit, SequenceCache& cache, std::string& why_not);

  /// Hands what the store lacks of `cache` to the writer: full blocks by reference, the rest as a copy; never
  /// waits for the disk. Where the queue has no room for all, the leading blocks are taken and the next call
  /// goes on. Call it between forwards of this sequence. `snapshot`: also the rings, at the cache's length.
  PrefixStored store(const SequenceCache& cache, std::optional<SnapshotPart> snapshot = std::nullopt);

  /// Waits until everything stored so far is on disk or has failed (see stats().write.last_problem).
  void flush();
  /// What waits to be written holds memory that is needed: it is written without regard to steps that run.
  void hurry();

  PrefixStoreStats stats() const;
  const Key& fingerprint() const { return identity_.fingerprint; }
  /// Why nothing can be written, though it was asked for; empty otherwise.
  const std::string& why_read_only() const { return env_->why_read_only(); }

 private:
  ChainModel model() const { return {plan_, identity_.fingerprint}; }
  std::string why_no_model(const Txn& txn) const;
  std::optional<std::string> restore_block(const Txn& txn, const ChainLink& link, const PrefixHit& hit,
                                           std::int64_t length, SequenceCache& cache);
  void damage(RecordKind kind, Bytes place);

  const CachePlan plan_;
  const ModelIdentity identity_;
  const PrefixStoreOptions options_;
  std::shared_ptr<Environment> env_;
  std::unique_ptr<WriteBehind> writer_;  // none where the store is read-only
  mutable std::mutex mutex_;
  PrefixStoreStats stats_;
};

}  // namespace seekline
