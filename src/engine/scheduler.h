// Serves many sequences from one model: one thread, one forward a step, all decodes together and a chunk of
// somebody's prompt beside them. What a sequence answers does not depend on who else is served.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/prefix_cache.h"
#include "engine/sampler.h"
#include "seekline/error.h"
#include "seekline/model.h"

namespace seekline {

enum class SequenceEnd : std::uint8_t {
  kStopped,       ///< the client said that the last token was the last
  kLength,        ///< max_tokens
  kContext,       ///< the context is full
  kCacheFull,     ///< the cache limit leaves no room for a longer sequence
  kCancelled,     ///< by Scheduler::cancel
  kQueueTimeout,  ///< waited too long for its turn
  kTimeout,       ///< ran too long
  kShutdown,      ///< the scheduler ends
  kFailed,        ///< see SequenceSummary::message
};

struct SequenceSummary {
  SequenceEnd end = SequenceEnd::kStopped;
  std::string message;  ///< kFailed: one sentence
  std::int64_t prompt_tokens = 0, generated_tokens = 0, computed_tokens = 0;
  int preemptions = 0;
  double queue_seconds = 0, prompt_seconds = 0,
         decode_seconds = 0;  ///< waiting; to the first choice; after it
  ReuseReport reuse;          ///< of the prompt; its evaluations are counted up to the first choice
  std::vector<std::int64_t> store_bytes;  ///< memory of the sequence's cache by store, at the end
};

/// One sequence's side of the story. Called on the scheduler's thread: quick, never blocking, never throwing.
class SequenceClient {
 public:
  virtual ~SequenceClient() = default;
  /// The sequence has its cache; computing begins. Called again after a preemption.
  virtual void on_start(const ReuseReport& report) = 0;
  /// `done` tokens of the prompt are in the cache.
  virtual void on_prompt(std::int64_t done) = 0;
  /// The cache has grown: its memory by store. Whenever the sequence has begun a new page.
  virtual void on_cache(std::span<const std::int64_t> store_bytes) = 0;
  /// Tokens that may be chosen next, one byte a token; empty: all.
  virtual std::span<const std::uint8_t> allowed() = 0;
  /// A token was chosen; false makes it the last.
  virtual bool on_token(const Choice& choice) = 0;
  /// Nothing follows.
  virtual void on_end(const SequenceSummary& summary) = 0;
};

struct SequenceRequest {
  using Clock = std::chrono::steady_clock;
  std::vector<std::int32_t> prompt;
  SamplingOptions sampling;
  std::int64_t max_tokens = 0;  ///< 0: until the context is full
  int top_logprobs = 0;
  ReplayWay way = ReplayWay::kAuto;
  Clock::time_point start_by = Clock::time_point::max();
  Clock::time_point end_by = Clock::time_point::max();
};

/// A request was not taken.
class Refused : public Error {
 public:
  enum class Why : std::uint8_t { kQueueFull, kShutdown, kPromptTooLong, kCacheTooSmall };
  Refused(Why why, const std::string& sentence) : Error(ErrorCode::kLimit, sentence), why_(why) {}
  Why why() const { return why_; }

 private:
  Why why_;
};

struct SchedulerOptions {
  std::int64_t max_running = 16;    ///< sequences computed together at most
  std::int64_t max_waiting = 256;   ///< sequences in the queue at most
  std::int64_t chunk_beside = 128;  ///< prompt tokens of a step while somebody decodes
};

struct SchedulerStats {
  std::int64_t waiting = 0, running = 0, kept_timelines = 0, kept_bytes = 0, page_bytes = 0;  ///< now
  std::int64_t accepted = 0, refused = 0, finished = 0, cancelled = 0, failed = 0, preempted = 0;
  std::int64_t steps = 0, computed_tokens = 0, generated_tokens = 0;
  std::int64_t prompt_tokens = 0, reused_tokens = 0;  ///< of prompts when they were begun first
  double busy_seconds = 0;                            ///< inside forwards
};

/// Thread-safe. Memory: pages up to the model's cache limit, and rings and snapshots of what runs or is kept.
class Scheduler {
 public:
  using Id = std::uint64_t;

  Scheduler(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes,
            const SchedulerOptions& options);
  ~Scheduler();  ///< stops
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  /// Queues the sequences, all or none. Throws Refused, or Error(kUsage) where a request cannot be meant.
  std::vector<Id> submit(std::vector<SequenceRequest> requests,
                         std::vector<std::shared_ptr<SequenceClient>> clients);
  Id submit(SequenceRequest request, std::shared_ptr<SequenceClient> client);

  /// The sequence ends within one step, with kCancelled; its cache is kept for a retry. Unknown ids are
  /// ignored.
  void cancel(Id id);

  /// From now on submit refuses (kShutdown); what is queued or runs goes on.
  void close();
  /// Ends what is queued and runs (kShutdown) and waits for the thread; from then on submit refuses.
  void stop();
  /// Waits until nothing is queued or runs; false where that took longer than `limit`.
  bool wait_idle(std::chrono::milliseconds limit);

  SchedulerStats stats() const;
  const Model& model() const { return *model_; }

 private:
  class Engine;
  std::shared_ptr<Model> model_;
  std::unique_ptr<Engine> engine_;
};

/// Page memory of a sequence of `tokens` tokens, from the plan.
std::int64_t page_bytes_at(const PagePool& pool, std::int64_t tokens);

}  // namespace seekline
