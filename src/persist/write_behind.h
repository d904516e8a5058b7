// Writes to the store beside generation: a thread with a queue that never makes anyone wait, and that works
// a small share of the time while a model computes.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cache/snapshot.h"
#include "persist/chain.h"
#include "persist/environment.h"

namespace seekline {

/// What a sequence gives to the store at one moment.
struct StoreJob {
  std::vector<std::int32_t> tokens;          ///< the sequence from its start
  std::int64_t first_block = 0;              ///< blocks before it are in the store already
  std::vector<std::vector<PageRef>> blocks;  ///< from first_block on: a page of every growing store
  std::vector<std::uint8_t> partial;  ///< payload of the last tokens % kBlockTokens tokens; may be empty
  std::optional<Snapshot> snapshot;   ///< at the end of `tokens`
  std::int64_t bytes = 0;             ///< memory that the job keeps
};

struct WriteStats {
  std::int64_t blocks_written = 0, partials_written = 0, snapshots_written = 0, commits = 0;
  std::int64_t blocks_evicted = 0, snapshots_evicted = 0;
  std::int64_t jobs_failed = 0;
  std::int64_t queued_bytes = 0;
  std::string last_problem;  ///< why the last job that failed did; empty where none did
};

struct WriteBehindOptions {
  std::int64_t limit_bytes = 0;  ///< of the store: least recently used leaves are evicted above it
  std::int64_t queue_bytes = 0;  ///< of memory that jobs may keep
};

/// Owns the thread. Everything but the constructor may be called from any thread.
class WriteBehind {
 public:
  WriteBehind(std::shared_ptr<Environment> env, CachePlan plan, Key fingerprint, std::string description,
              const WriteBehindOptions& options);
  /// Writes what is queued, then ends.
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  /// Memory that jobs may still take.
  std::int64_t room() const;
  /// How many leading full blocks of `tokens` the store will hold once what is queued is written, where it
  /// holds `stored` of them now.
  std::int64_t blocks_when_written(std::span<const std::int32_t> tokens, std::int64_t stored) const;
  void push(StoreJob job);
  /// A record was used now; written with the next commit, at the latest half a minute later.
  void touch(const Key& record);
  /// A record looks damaged; the writer looks again and erases it, so that it can be stored anew.
  void report_damage(RecordKind kind, Bytes place);
  /// Waits until everything pushed, touched and reported before is on disk, or has failed.
  void flush();
  /// Until the queue is empty nothing rests; returns at once.
  void hurry();
  WriteStats stats() const;

 private:
  struct Batch {
    std::vector<StoreJob> jobs;
    std::unordered_map<Key, std::uint64_t, KeyHash> touched;
    std::vector<std::pair<RecordKind, std::vector<std::uint8_t>>> damaged;
    bool empty() const { return jobs.empty() && touched.empty() && damaged.empty(); }
  };

  void run();
  bool take();
  bool may_rest() const;
  StoreJob take_blocks(std::int64_t count);
  void rest(std::chrono::steady_clock::duration took);
  void write(const Batch& batch);
  void write_once(const Batch& batch, WriteStats& done);
  void make_room(int attempt);

  const std::shared_ptr<Environment> env_;
  const CachePlan plan_;
  const Key fingerprint_;
  const std::string description_;
  const WriteBehindOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<StoreJob> jobs_;
  Batch waiting_;     // touches and damage only
  Batch batch_;       // what is being written; changed by the writer alone, under the lock
  int flushing_ = 0;  // callers of flush()
  bool busy_ = false, ending_ = false, hurry_ = false;
  WriteStats stats_;
  std::thread thread_;
};

/// Milliseconds since 1970.
std::uint64_t now_ms();

}  // namespace seekline
