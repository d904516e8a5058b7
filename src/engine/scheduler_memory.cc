// The scheduler's memory: room for the next token, preemption, and what becomes of a cache at the end.
#include <algorithm>

#include "engine/scheduler_engine.h"

namespace seekline {

// The timeline that goes on best with the sequence's tokens, and pages for all of them; false: no room, and
// nothing has changed. Beyond its own pages there must be room for everybody who runs to grow by one, so that
// a preempted sequence does not come back to be preempted.
bool Scheduler::Engine::take_timeline(Sequence& sequence) {
  PagePool& pool = model_.pages();
  const std::int64_t page = page_bytes_at(pool, 1);
  try {
    sequence.timeline = prefixes_->acquire(sequence.history, sequence.prompt_tokens(), sequence.request.way);
    SequenceCache& cache = sequence.timeline->cache();
    std::int64_t held = 0;
    for (const Store& store : pool.plan().stores)
      if (store.growing()) held += cache.allocated_bytes(store.id);
    const std::int64_t wanted = page_bytes_at(pool, std::ssize(sequence.history)) - held + page +
                                page * static_cast<std::int64_t>(running_.size());
    const std::int64_t missing =
        pool.limit_bytes() == 0 ? 0 : pool.used_bytes() + wanted - pool.limit_bytes();
    if (missing > 0) prefixes_->evict(missing);
    const bool roomy = pool.limit_bytes() == 0 || pool.used_bytes() + wanted <= pool.limit_bytes();
    if (roomy || running_.empty()) {
      cache.reserve(std::ssize(sequence.history));
      return true;
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kLimit) throw;
    if (running_.empty()) prefixes_->evict(pool.limit_bytes());
  }
  if (sequence.timeline) prefixes_->keep(std::move(sequence.timeline));
  return false;
}

void Scheduler::Engine::measure(Sequence& sequence) const {
  std::vector<std::int64_t>& bytes = sequence.summary.store_bytes;
  bytes.clear();
  for (const Store& store : model_.plan().stores)
    bytes.push_back(sequence.timeline->cache().allocated_bytes(store.id));
}

// Pages for all tokens of a running sequence. Where the limit is reached kept timelines go first, then the
// sequence that was admitted last. False: the sequence itself is preempted or has ended.
bool Scheduler::Engine::make_room(Sequence& sequence) {
  for (;;) {
    try {
      sequence.timeline->cache().reserve(std::ssize(sequence.history));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) {
        end(sequence, SequenceEnd::kFailed, error.what());
        return false;
      }
    }
    const std::int64_t kept = prefixes_->stats().timelines;
    prefixes_->evict(page_bytes_at(model_.pages(), 1));
    if (prefixes_->stats().timelines < kept) continue;
    Sequence* youngest = nullptr;
    for (const auto& other : running_)
      if (ended_.count(other.get()) == 0 && (!youngest || other->admitted > youngest->admitted))
        youngest = other.get();
    if (youngest != &sequence) {
      preempt(*youngest);
      continue;
    }
    if (running_.size() - ended_.size() == 1) {
      end(sequence, SequenceEnd::kCacheFull);
    } else {
      preempt(sequence);
    }
    return false;
  }
}

void Scheduler::Engine::give_back(Sequence& sequence) {
  if (!sequence.timeline->done()) sequence.timeline->stop();
  prefixes_->keep(std::move(sequence.timeline));
  ++given_back_;
}

// Back to the head of the queue; what it has computed is kept as long as there is room.
void Scheduler::Engine::preempt(Sequence& sequence) {
  const auto at =
      std::find_if(running_.begin(), running_.end(), [&](const auto& p) { return p.get() == &sequence; });
  std::unique_ptr<Sequence> taken = std::move(*at);
  running_.erase(at);
  give_back(*taken);
  ++taken->summary.preemptions;
  waiting_.push_front(std::move(taken));
  const std::lock_guard lock(mutex_);
  ++in_queue_;
  ++stats_.preempted;
}

void Scheduler::Engine::end(Sequence& sequence, SequenceEnd how, const std::string& message) {
  SequenceSummary& summary = sequence.summary;
  summary.end = how;
  summary.message = message;
  summary.prompt_tokens = sequence.prompt_tokens();
  summary.generated_tokens = sequence.generated();
  const Clock::time_point now = Clock::now();
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  if (!sequence.started) {
    summary.queue_seconds = seconds(now - sequence.submitted);
  } else {
    const Clock::time_point chose = sequence.generated() > 0 ? sequence.first_choice : now;
    summary.prompt_seconds = seconds(chose - sequence.first_start);
    summary.decode_seconds = seconds(now - chose);
  }
  if (sequence.timeline) {
    measure(sequence);
    give_back(sequence);
  } else if (how == SequenceEnd::kFailed) {
    ++given_back_;
  }
  const bool was_running =
      std::any_of(running_.begin(), running_.end(), [&](const auto& p) { return p.get() == &sequence; });
  if (was_running) ended_.insert(&sequence);
  {
    const std::lock_guard lock(mutex_);  // before the client knows, so that what it reads next is true
    count_end(how, was_running);
  }
  sequence.client->on_end(summary);
  const std::lock_guard lock(mutex_);
  --alive_;
  if (alive_ == 0) idle_.notify_all();
}

void Scheduler::Engine::count_end(SequenceEnd how, bool was_running) {
  if (!was_running) --in_queue_;
  stats_.running = std::ssize(running_) - std::ssize(ended_);
  ++(how == SequenceEnd::kFailed                                       ? stats_.failed
     : how == SequenceEnd::kCancelled || how == SequenceEnd::kShutdown ? stats_.cancelled
                                                                       : stats_.finished);
}

void Scheduler::Engine::fail_all(const std::vector<SequenceStep>& parts, const std::string& message) {
  for (const SequenceStep& part : parts) {
    part.sequence->timeline.reset();
    end(*part.sequence, SequenceEnd::kFailed, message);
  }
  remove_ended();
}

void Scheduler::Engine::remove_ended() {
  if (!ended_.empty()) {
    std::erase_if(running_, [this](const auto& sequence) { return ended_.count(sequence.get()) != 0; });
    ended_.clear();
  }
  const PrefixCache::Stats kept = prefixes_->stats();
  const std::lock_guard lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.kept_timelines = kept.timelines;
  stats_.kept_bytes = kept.bytes;
  stats_.page_bytes = model_.pages().used_bytes();
}

}  // namespace seekline
