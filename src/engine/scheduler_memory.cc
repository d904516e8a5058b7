// The scheduler's memory: room for the next token, preemption, and what becomes of a cache at the end.
#include <algorithm>

#include "engine/scheduler_engine.h"

namespace seekline {

std::int64_t Scheduler::Engine::running_page_bytes() const {
  std::int64_t sum = 0;
  for (const auto& sequence : running_)
    for (const Store& store : model_.plan().stores)
      if (store.growing() && sequence->cache) sum += sequence->cache->allocated_bytes(store.id);
  return sum;
}

// Pages for all tokens of a running sequence. Where the limit is reached kept caches go first, then the
// sequence that was admitted last. False: the sequence itself is preempted or has ended.
bool Scheduler::Engine::make_room(Sequence& sequence) {
  for (;;) {
    try {
      sequence.cache->reserve(static_cast<std::int64_t>(sequence.history.size()));
      return true;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kLimit) {
        end(sequence, SequenceEnd::kFailed, error.what());
        return false;
      }
    }
    if (caches_->kept_caches() > 0) {
      const std::int64_t before = caches_->kept_caches();
      caches_->evict(page_bytes_at(model_.pages(), 1));
      if (caches_->kept_caches() < before) continue;
    }
    Sequence* youngest = nullptr;
    for (const auto& other : running_)
      if (ended_.count(other.get()) == 0 && (!youngest || other->admitted > youngest->admitted))
        youngest = other.get();
    if (youngest == &sequence) {
      const bool alone = running_.size() - ended_.size() == 1;
      if (alone) {
        end(sequence, SequenceEnd::kCacheFull);
      } else {
        preempt(sequence);
      }
      return false;
    }
    preempt(*youngest);
  }
}

// Back to the head of the queue; what it has computed stays with the kept caches as long as there is room.
void Scheduler::Engine::preempt(Sequence& sequence) {
  const auto at =
      std::find_if(running_.begin(), running_.end(), [&](const auto& p) { return p.get() == &sequence; });
  std::unique_ptr<Sequence> taken = std::move(*at);
  running_.erase(at);
  caches_->release(std::move(taken->cache));
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
  if (sequence.cache) {
    for (const Store& store : model_.plan().stores)
      summary.store_bytes.push_back(sequence.cache->allocated_bytes(store.id));
    if (how != SequenceEnd::kFailed) caches_->release(std::move(sequence.cache));
    sequence.cache.reset();
  }
  const bool was_running =
      std::any_of(running_.begin(), running_.end(), [&](const auto& p) { return p.get() == &sequence; });
  if (was_running) ended_.insert(&sequence);
  sequence.client->on_end(summary);
  const std::lock_guard lock(mutex_);
  if (!was_running) --in_queue_;
  --alive_;
  ++(how == SequenceEnd::kFailed                                       ? stats_.failed
     : how == SequenceEnd::kCancelled || how == SequenceEnd::kShutdown ? stats_.cancelled
                                                                       : stats_.finished);
  if (alive_ == 0) idle_.notify_all();
}

void Scheduler::Engine::fail_all(const std::vector<SequenceStep>& parts, const std::string& message) {
  for (const SequenceStep& part : parts) {
    part.sequence->cache.reset();
    end(*part.sequence, SequenceEnd::kFailed, message);
  }
  remove_ended();
}

void Scheduler::Engine::remove_ended() {
  if (!ended_.empty()) {
    std::erase_if(running_, [this](const auto& sequence) { return ended_.count(sequence.get()) != 0; });
    ended_.clear();
  }
  const std::lock_guard lock(mutex_);
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.kept_caches = caches_->kept_caches();
  stats_.kept_bytes = caches_->kept_bytes();
}

}  // namespace seekline
