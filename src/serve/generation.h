// One request's generation: its choices as they grow on the engine's thread, read by the thread of its
// connection.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "serve/generation_spec.h"

namespace seekline::serve {

/// Why a choice ended, as the APIs see it.
enum class Finish : std::uint8_t {
  kStop,        ///< the model ended its answer, or JSON is complete
  kStopString,  ///< see stop_string
  kLength,      ///< max tokens, context or cache full
  kCalls,       ///< the answer calls tools
  kFailed,      ///< see error
};

struct TokenRecord {
  Choice choice;
};

struct GenerationEvent {
  enum class Kind : std::uint8_t {
    kStart,     ///< computing begins; the prompt's reuse is known
    kProgress,  ///< `prompt_done` tokens of the prompt are in the cache
    kCache,     ///< the cache has grown to `store_bytes`
    kReasoning,
    kContent,    ///< with `records`, where log probabilities were asked for
    kCallBegin,  ///< `text`: the function
    kCallArguments,
    kCallEnd,
    kCallsRejected,  ///< as ReplyEvent
    kEnd,            ///< of the choice
  };
  GenerationEvent() = default;
  GenerationEvent(Kind what, int of_choice, int of_call = -1, std::string with = {},
                  std::vector<TokenRecord> said = {})
      : kind(what), choice(of_choice), call(of_call), text(std::move(with)), records(std::move(said)) {}

  Kind kind = Kind::kContent;
  int choice = 0;
  int call = -1;
  std::string text;
  std::vector<TokenRecord> records;
  std::int64_t prompt_done = 0;
  std::vector<std::int64_t> store_bytes;
};

struct CallOutcome {
  std::string name, arguments;
  bool complete = false;
};

/// A choice so far; whole after its kEnd.
struct ChoiceOutcome {
  std::string reasoning, content;
  std::vector<CallOutcome> calls;
  std::vector<TokenRecord> records;
  std::int64_t reasoning_tokens = 0;
  std::int64_t completion_tokens = 0;
  ReuseReport prefix;  ///< of its first start
  bool started = false, ended = false;
  Finish finish = Finish::kStop;
  std::string stop_string;
  std::string error;  ///< kFailed
  bool shutdown = false, timed_out = false, queue_timed_out = false;
  SequenceSummary summary;  ///< before kEnd its store_bytes alone
};

/// The queue between the engine's thread (push) and a connection's (next).
class Generation {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Generation(int choices) : outcomes_(static_cast<std::size_t>(choices)), open_(choices) {}
  ~Generation() { cancel(); }
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  /// The next event, or nothing by `deadline` or after the last one. The outcome of its choice includes it.
  std::optional<GenerationEvent> next(Clock::time_point deadline);
  /// Every choice has ended and next() has returned its end.
  bool done() const { return open_ == 0; }

  /// For the connection's thread, as of the last event.
  const std::vector<ChoiceOutcome>& outcomes() const { return outcomes_; }

  void cancel();
  void on_cancel(std::function<void()> action);

  /// From the engine's thread. `outcome` replaces what is known of the choice, but for text.
  void push(GenerationEvent event);
  void push_end(int choice, ChoiceOutcome facts);
  void push_start(int choice, const ReuseReport& prefix);

 private:
  void apply(const GenerationEvent& event);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<GenerationEvent> events_;
  std::deque<ChoiceOutcome> facts_;  // one for each kStart and kEnd in events_
  std::vector<ChoiceOutcome> outcomes_;
  int open_;
  std::function<void()> cancel_;
};

}  // namespace seekline::serve
