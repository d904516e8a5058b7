#include "serve/generation.h"

namespace seekline::serve {

using Kind = GenerationEvent::Kind;

std::optional<GenerationEvent> Generation::next(Clock::time_point deadline) {
  if (done()) return std::nullopt;
  GenerationEvent event;
  ChoiceOutcome facts;
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, deadline, [this] { return !events_.empty(); })) return std::nullopt;
    event = std::move(events_.front());
    events_.pop_front();
    if (event.kind == Kind::kStart || event.kind == Kind::kEnd) {
      facts = std::move(facts_.front());
      facts_.pop_front();
    }
  }
  ChoiceOutcome& outcome = outcomes_[static_cast<std::size_t>(event.choice)];
  if (event.kind == Kind::kStart) {
    outcome.started = true;
    outcome.prefix = std::move(facts.prefix);
  } else if (event.kind == Kind::kEnd) {
    facts.reasoning = std::move(outcome.reasoning);
    facts.content = std::move(outcome.content);
    facts.calls = std::move(outcome.calls);
    facts.records = std::move(outcome.records);
    facts.prefix = std::move(outcome.prefix);
    facts.started = outcome.started;
    outcome = std::move(facts);
    outcome.ended = true;
    --open_;
  }
  apply(event);
  return event;
}

void Generation::apply(const GenerationEvent& event) {
  ChoiceOutcome& outcome = outcomes_[static_cast<std::size_t>(event.choice)];
  const auto call = [&]() -> CallOutcome& { return outcome.calls[static_cast<std::size_t>(event.call)]; };
  outcome.records.insert(outcome.records.end(), event.records.begin(), event.records.end());
  switch (event.kind) {
    case Kind::kReasoning:
      outcome.reasoning += event.text;
      break;
    case Kind::kContent:
      outcome.content += event.text;
      break;
    case Kind::kCallBegin:
      outcome.calls.push_back({event.text, {}, false});
      break;
    case Kind::kCallArguments:
      call().arguments += event.text;
      break;
    case Kind::kCallEnd:
      call().complete = true;
      break;
    case Kind::kCallsRejected:
      std::erase_if(outcome.calls, [](const CallOutcome& c) { return !c.complete; });
      break;
    case Kind::kCache:
      outcome.summary.store_bytes = event.store_bytes;
      break;
    case Kind::kStart:
    case Kind::kProgress:
    case Kind::kEnd:
      break;
  }
}

void Generation::push(GenerationEvent event) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
  }
  changed_.notify_one();
}

void Generation::push_start(int choice, const ReuseReport& prefix) {
  ChoiceOutcome facts;
  facts.prefix = prefix;
  {
    const std::lock_guard lock(mutex_);
    facts_.push_back(std::move(facts));
    events_.emplace_back(Kind::kStart, choice);
  }
  changed_.notify_one();
}

void Generation::push_end(int choice, ChoiceOutcome facts) {
  {
    const std::lock_guard lock(mutex_);
    facts_.push_back(std::move(facts));
    events_.emplace_back(Kind::kEnd, choice);
  }
  changed_.notify_one();
}

void Generation::on_cancel(std::function<void()> action) {
  const std::lock_guard lock(mutex_);
  cancel_ = std::move(action);
}

void Generation::cancel() {
  std::function<void()> action;
  {
    const std::lock_guard lock(mutex_);
    action = std::move(cancel_);
    cancel_ = nullptr;
  }
  if (action) action();
}

}  // namespace seekline::serve
