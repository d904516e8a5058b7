#include "persist/write_behind.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>

#include "core/step_activity.h"
#include "persist/evict.h"
#include "persist/job_writer.h"

namespace seekline {
namespace {

constexpr std::int64_t kBatchBytes = std::int64_t{32} << 20;  // of one commit, about
// While a model computes: one commit is a small part of a step, and the writer rests so many times as long
// as it took, unless the queue fills up.
constexpr std::int64_t kBatchBytesBeside = std::int64_t{2} << 20;
constexpr int kRests = 50;
constexpr std::chrono::milliseconds kPause{20};  // no step for so long: nobody computes
constexpr std::chrono::seconds kTouchDelay{30};
constexpr std::size_t kMostTouches = 4096;
constexpr int kAttempts = 4;   // to find room for a batch
constexpr int kNiceness = 19;  // generation goes first

}  // namespace

std::uint64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

WriteBehind::WriteBehind(std::shared_ptr<Environment> env, CachePlan plan, Key fingerprint,
                         std::string description, const WriteBehindOptions& options)
    : env_(std::move(env)),
      plan_(std::move(plan)),
      fingerprint_(fingerprint),
      description_(std::move(description)),
      options_(options),
      thread_([this] { run(); }) {}

WriteBehind::~WriteBehind() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

std::int64_t WriteBehind::room() const {
  const std::lock_guard lock(mutex_);
  return std::max<std::int64_t>(0, options_.queue_bytes - stats_.queued_bytes);
}

void WriteBehind::push(StoreJob job) {
  const std::lock_guard lock(mutex_);
  stats_.queued_bytes += job.bytes;
  jobs_.push_back(std::move(job));
  wake_.notify_all();
}

void WriteBehind::touch(const Key& record) {
  const std::lock_guard lock(mutex_);
  waiting_.touched[record] = now_ms();
  if (waiting_.touched.size() >= kMostTouches) wake_.notify_all();
}

void WriteBehind::report_damage(RecordKind kind, Bytes place) {
  const std::lock_guard lock(mutex_);
  if (waiting_.damaged.size() < kMostTouches)
    waiting_.damaged.emplace_back(kind, std::vector<std::uint8_t>(place.begin(), place.end()));
  wake_.notify_all();
}

void WriteBehind::flush() {
  std::unique_lock lock(mutex_);
  ++flushing_;
  wake_.notify_all();
  idle_.wait(lock, [&] { return jobs_.empty() && waiting_.empty() && !busy_; });
  --flushing_;
}

void WriteBehind::hurry() {
  const std::lock_guard lock(mutex_);
  hurry_ = !jobs_.empty();
  wake_.notify_all();
}

WriteStats WriteBehind::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

std::int64_t WriteBehind::blocks_when_written(std::span<const std::int32_t> tokens,
                                              std::int64_t stored) const {
  const std::lock_guard lock(mutex_);
  const auto add = [&](const StoreJob& job) {
    const auto end = job.first_block + static_cast<std::int64_t>(job.blocks.size());
    if (job.first_block > stored || end <= stored) return;
    const auto differs = std::mismatch(job.tokens.begin(), job.tokens.end(), tokens.begin(), tokens.end());
    stored = std::max(stored, std::min(end, (differs.first - job.tokens.begin()) / kBlockTokens));
  };
  std::for_each(batch_.jobs.begin(), batch_.jobs.end(), add);
  std::for_each(jobs_.begin(), jobs_.end(), add);
  return stored;
}

void WriteBehind::run() {
  // Threads have priorities of their own on Linux.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNiceness);
  while (take()) {
    const auto start = std::chrono::steady_clock::now();
    write(batch_);
    {
      const std::lock_guard lock(mutex_);
      for (const StoreJob& job : batch_.jobs) stats_.queued_bytes -= job.bytes;
      batch_ = {};
      busy_ = false;
      if (jobs_.empty()) hurry_ = false;
      if (jobs_.empty() && waiting_.empty()) idle_.notify_all();
    }
    rest(std::chrono::steady_clock::now() - start);
  }
}

void WriteBehind::rest(std::chrono::steady_clock::duration took) {
  const auto end = std::chrono::steady_clock::now() + kRests * took;
  std::unique_lock lock(mutex_);
  while (may_rest() && std::chrono::steady_clock::now() < end) wake_.wait_for(lock, kPause);
}

bool WriteBehind::may_rest() const {
  return !ending_ && flushing_ == 0 && !hurry_ && stats_.queued_bytes < options_.queue_bytes / 2 &&
         StepActivity::any(kPause);
}

// The first `count` blocks of the first job, a job of their own.
StoreJob WriteBehind::take_blocks(std::int64_t count) {
  StoreJob& whole = jobs_.front();
  const auto last = whole.blocks.begin() + static_cast<std::ptrdiff_t>(count);
  StoreJob job;
  job.first_block = whole.first_block;
  job.blocks.assign(std::make_move_iterator(whole.blocks.begin()), std::make_move_iterator(last));
  whole.blocks.erase(whole.blocks.begin(), last);
  whole.first_block += count;
  job.tokens.assign(whole.tokens.begin(),
                    whole.tokens.begin() + static_cast<std::ptrdiff_t>(whole.first_block * kBlockTokens));
  job.bytes = count * block_bytes(plan_);
  whole.bytes -= job.bytes;
  return job;
}

// Waits for work; false when there is none left and the store is closed.
bool WriteBehind::take() {
  std::unique_lock lock(mutex_);
  // With nothing to do it must wait: whoever flushes needs the mutex to see that.
  const auto urgent = [&] {
    return ending_ || !jobs_.empty() || !waiting_.damaged.empty() ||
           waiting_.touched.size() >= kMostTouches || (flushing_ > 0 && !waiting_.touched.empty());
  };
  for (;;) {
    wake_.wait_for(lock, kTouchDelay, urgent);
    if (!jobs_.empty() || !waiting_.empty()) break;
    if (ending_) return false;
  }
  std::int64_t room = may_rest() ? kBatchBytesBeside : kBatchBytes;
  while (!jobs_.empty() && room > 0) {
    const auto blocks = static_cast<std::int64_t>(jobs_.front().blocks.size());
    const std::int64_t fit = std::max<std::int64_t>(1, room / block_bytes(plan_));
    if (fit < blocks) {
      batch_.jobs.push_back(take_blocks(fit));
      break;
    }
    room -= jobs_.front().bytes;
    batch_.jobs.push_back(std::move(jobs_.front()));
    jobs_.pop_front();
  }
  batch_.touched.swap(waiting_.touched);
  batch_.damaged.swap(waiting_.damaged);
  busy_ = true;
  return true;
}

void WriteBehind::write(const Batch& batch) {
  WriteStats done;
  const auto failed = [&](const std::string& problem) {
    done = {};
    done.jobs_failed = static_cast<std::int64_t>(batch.jobs.size());
    done.last_problem = problem;
  };
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    done = {};
    try {
      write_once(batch, done);
      break;
    } catch (const MapFull&) {
      failed("prefix store " + env_->folder().string() + ": there is no room in its map");
    } catch (const std::exception& error) {
      failed(error.what());
      break;
    }
    try {
      make_room(attempt);
    } catch (const MapFull&) {
      break;
    } catch (const std::exception& error) {
      failed(error.what());
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  stats_.blocks_written += done.blocks_written;
  stats_.partials_written += done.partials_written;
  stats_.snapshots_written += done.snapshots_written;
  stats_.blocks_evicted += done.blocks_evicted;
  stats_.snapshots_evicted += done.snapshots_evicted;
  stats_.commits += done.commits;
  stats_.jobs_failed += done.jobs_failed;
  if (!done.last_problem.empty()) stats_.last_problem = done.last_problem;
}

void WriteBehind::write_once(const Batch& batch, WriteStats& done) {
  WriteTxn txn(*env_);
  const ChainModel model{plan_, fingerprint_};
  for (const auto& [kind, place] : batch.damaged) {
    std::string problem;
    auto record = StoredRecord::find(txn, kind, place, problem);
    if (!record) continue;
    if (problem.empty()) problem = record->load(txn).value_or("");
    if (problem.empty()) problem = record->check_payload().value_or("");
    if (!problem.empty()) erase_record(txn, kind, place);
  }
  for (const auto& [record, time] : batch.touched)
    if (txn.get(Table::kUsed, bytes_of(record))) mark_used(txn, record, time);
  if (!batch.jobs.empty()) describe_model(txn, fingerprint_, description_);
  for (const StoreJob& job : batch.jobs) {
    try {
      write_job(txn, model, job, done);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) throw;
      ++done.jobs_failed;  // of this job alone: what it wrote before is sound
      done.last_problem = error.what();
    }
  }
  if (txn.live_bytes() > options_.limit_bytes) {
    const Evicted evicted = evict(txn, options_.limit_bytes / 10 * 9);
    done.blocks_evicted += evicted.blocks;
    done.snapshots_evicted += evicted.snapshots;
  }
  txn.commit();
  ++done.commits;
}

// The limit leaves the map a quarter of room. What fills it nevertheless are free pages in runs too short to
// use.
void WriteBehind::make_room(int attempt) {
  const std::int64_t map = env_->map_bytes();
  if (map < 2 * options_.limit_bytes) {
    env_->grow_map(map + map / 4);
    return;
  }
  WriteTxn txn(*env_);
  evict(txn, txn.live_bytes() / 10 * (9 - attempt));
  txn.commit();
}

}  // namespace seekline
