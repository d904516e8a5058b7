// The scheduler's thread and what it owns; internal to the engine room.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_set>

#include "engine/sequence.h"

namespace seekline {

/// Members up to `stats_` are shared with callers under `mutex_`; the rest belongs to the thread.
class Scheduler::Engine {
 public:
  Engine(Model& model, std::shared_ptr<PrefixCache> prefixes, const SchedulerOptions& options);
  ~Engine();

  std::vector<Id> submit(std::vector<SequenceRequest> requests,
                         std::vector<std::shared_ptr<SequenceClient>> clients);
  void cancel(Id id);
  void close();
  void stop();
  bool wait_idle(std::chrono::milliseconds limit);
  SchedulerStats stats() const;

 private:
  using Clock = SequenceRequest::Clock;

  void check(const SequenceRequest& request) const;

  // The loop.
  void run();
  bool collect();  // arrivals, cancellations, deadlines; false: time to end
  void drop_unwanted(const std::unordered_set<Id>& cancelled);
  void admit();
  bool start(std::unique_ptr<Sequence>& sequence);
  void step();
  void forward(std::vector<SequenceStep>& parts);
  void deliver(const std::vector<SequenceStep>& parts);
  void choose(Sequence& sequence, std::span<const float> logits);
  void tell_growth(Sequence& sequence);

  // Memory.
  void measure(Sequence& sequence) const;
  bool make_room(Sequence& sequence);
  void preempt(Sequence& sequence);
  bool take_timeline(Sequence& sequence);
  void give_back(Sequence& sequence);

  void end(Sequence& sequence, SequenceEnd how, const std::string& message = {});
  void count_end(SequenceEnd how, bool was_running);
  void fail_all(const std::vector<SequenceStep>& parts, const std::string& message);
  void remove_ended();
  void publish(std::int64_t step_prompt_tokens, std::int64_t step_choices, double seconds);

  Model& model_;
  const SchedulerOptions options_;

  mutable std::mutex mutex_;
  std::condition_variable work_, idle_;
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::unordered_set<Id> cancelled_;
  Id next_id_ = 1;
  std::int64_t in_queue_ = 0;  // submitted and not yet admitted
  std::int64_t alive_ = 0;     // submitted and not yet ended
  bool closed_ = false, stop_ = false;
  SchedulerStats stats_;

  std::shared_ptr<PrefixCache> prefixes_;
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;  // in order of admission
  std::unordered_set<const Sequence*> ended_;       // of running_, until remove_ended
  std::vector<float> logits_;
  std::uint64_t step_ = 0, admissions_ = 0;
  std::uint64_t given_back_ = 0;  // timelines, so far
  std::optional<std::uint64_t>
      found_no_room_after_;  // value of given_back_ when the head of the queue did not fit
  std::mutex stopping_;      // of stop(), which may come from several threads
  std::thread thread_;
};

}  // namespace seekline
