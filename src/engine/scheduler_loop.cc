// The scheduler's loop: who is let in, what a step computes, who ends.
#include <algorithm>
#include <cmath>
#include <exception>

#include "engine/executor.h"
#include "engine/scheduler_engine.h"

namespace seekline {
namespace {

double seconds_between(SequenceRequest::Clock::time_point a, SequenceRequest::Clock::time_point b) {
  return std::chrono::duration<double>(b - a).count();
}

}  // namespace

void Scheduler::Engine::run() {
  while (collect()) {
    admit();
    if (!running_.empty()) step();
  }
  for (auto& sequence : running_) end(*sequence, SequenceEnd::kShutdown);
  remove_ended();
  for (auto& sequence : waiting_) end(*sequence, SequenceEnd::kShutdown);
  waiting_.clear();
}

// Sleeps where there is nothing to do. Sequences only wait while others run, so deadlines need no timer.
bool Scheduler::Engine::collect() {
  std::unordered_set<Id> cancelled;
  {
    std::unique_lock lock(mutex_);
    work_.wait(lock, [this] { return stop_ || !inbox_.empty() || !running_.empty() || !waiting_.empty(); });
    for (auto& sequence : inbox_) waiting_.push_back(std::move(sequence));
    inbox_.clear();
    cancelled.swap(cancelled_);
    if (stop_) return false;
  }
  drop_unwanted(cancelled);
  return true;
}

void Scheduler::Engine::drop_unwanted(const std::unordered_set<Id>& cancelled) {
  const Clock::time_point now = Clock::now();
  for (auto& sequence : running_) {
    if (cancelled.count(sequence->id) != 0) {
      end(*sequence, SequenceEnd::kCancelled);
    } else if (now >= sequence->request.end_by) {
      end(*sequence, SequenceEnd::kTimeout);
    }
  }
  remove_ended();
  std::erase_if(waiting_, [&](std::unique_ptr<Sequence>& sequence) {
    const bool late =
        now >= sequence->request.end_by || (!sequence->started && now >= sequence->request.start_by);
    if (cancelled.count(sequence->id) == 0 && !late) return false;
    end(*sequence, late ? (sequence->started ? SequenceEnd::kTimeout : SequenceEnd::kQueueTimeout)
                        : SequenceEnd::kCancelled);
    return true;
  });
}

// The head of the queue is tried again when something has been given back since it found no room.
void Scheduler::Engine::admit() {
  while (!waiting_.empty() && static_cast<std::int64_t>(running_.size()) < options_.max_running &&
         found_no_room_after_ != given_back_)
    if (!start(waiting_.front())) return;
}

// Takes the sequence into running_ with the pages of all its tokens; false: it must wait.
bool Scheduler::Engine::start(std::unique_ptr<Sequence>& sequence) {
  try {
    // Where nobody else runs, the first attempt has given up what was kept.
    const bool taken = take_timeline(*sequence) || (running_.empty() && take_timeline(*sequence));
    if (!taken && !running_.empty()) {
      found_no_room_after_ = given_back_;
      return false;
    }
    if (!taken) {
      end(*sequence, SequenceEnd::kCacheFull);
      waiting_.pop_front();
      return true;
    }
  } catch (const std::exception& error) {
    end(*sequence, SequenceEnd::kFailed, error.what());
    waiting_.pop_front();
    return true;
  }
  sequence->admitted = ++admissions_;
  const bool first = !sequence->started;
  if (first) sequence->first_start = Clock::now();
  sequence->started = true;
  sequence->summary.queue_seconds = seconds_between(sequence->submitted, sequence->first_start);
  running_.push_back(std::move(sequence));
  waiting_.pop_front();
  Sequence& started = *running_.back();
  const ReuseReport& report = started.timeline->report();
  {
    const std::lock_guard lock(mutex_);
    --in_queue_;
    if (first) stats_.reused_tokens += report.reused_tokens;
    if (first) stats_.prompt_tokens += started.prompt_tokens();
  }
  started.client->on_start(report);
  return true;
}

void Scheduler::Engine::step() {
  ++step_;
  for (std::size_t i = 0; i < running_.size();) {  // make_room may preempt, which shortens the list
    const std::size_t before = running_.size();
    if (ended_.count(running_[i].get()) == 0) make_room(*running_[i]);
    i = running_.size() < before ? 0 : i + 1;
  }
  remove_ended();
  std::vector<SequenceStep> parts =
      choose_step(running_, model_.options().batch_tokens, options_.chunk_beside);
  if (parts.empty()) return;
  const Clock::time_point start = Clock::now();
  try {
    forward(parts);
  } catch (const std::exception& error) {
    fail_all(parts, error.what());
    return;
  }
  std::int64_t computed = 0, choices = 0;
  for (const SequenceStep& part : parts) {
    computed += std::ssize(part.run.tokens);
    choices += part.chooses ? 1 : 0;
  }
  publish(computed, choices, seconds_between(start, Clock::now()));
  deliver(parts);
  remove_ended();
}

void Scheduler::Engine::forward(std::vector<SequenceStep>& parts) {
  std::vector<Run> runs;
  std::vector<std::int32_t> wanted(parts.size());
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    SequenceStep& part = parts[i];
    part.run = part.sequence->timeline->next_run(part.limit);
    part.chooses = std::ssize(part.run.tokens) == part.sequence->timeline->pending();
    wanted[i] = static_cast<std::int32_t>(part.run.tokens.size() - 1);
    if (part.chooses) part.run.wanted_logits = {&wanted[i], 1};
    rows += part.chooses ? 1 : 0;
    if (!part.sequence->decodes()) part.sequence->last_chunk_step = step_;
    part.run.cache->ledger().reset();
    runs.push_back(part.run);
  }
  logits_.resize(static_cast<std::size_t>(std::max<std::int64_t>(rows, 1) * model_.vocab_size()));
  model_.executor().forward(runs, {logits_.data(), rows, model_.vocab_size()});
  for (const SequenceStep& part : parts) {
    part.sequence->timeline->ran(part.run);
    prefixes_->ran(*part.sequence->timeline);
  }
}

void Scheduler::Engine::deliver(const std::vector<SequenceStep>& parts) {
  const auto vocab = static_cast<std::size_t>(model_.vocab_size());
  std::size_t row = 0;
  for (const SequenceStep& part : parts) {
    Sequence& sequence = *part.sequence;
    sequence.summary.computed_tokens += std::ssize(part.run.tokens);
    if (sequence.generated() == 0) {
      const Timeline& timeline = *sequence.timeline;
      sequence.client->on_prompt(timeline.size() - timeline.pending());
      sequence.summary.reuse = timeline.report();
    }
    tell_growth(sequence);
    if (part.chooses) choose(sequence, std::span(logits_).subspan(row++ * vocab, vocab));
  }
}

void Scheduler::Engine::tell_growth(Sequence& sequence) {
  const std::int64_t pages = (sequence.timeline->size() + kPageTokens - 1) / kPageTokens;
  if (pages == sequence.pages_told) return;
  sequence.pages_told = pages;
  measure(sequence);
  sequence.client->on_cache(sequence.summary.store_bytes);
}

void Scheduler::Engine::choose(Sequence& sequence, std::span<const float> logits) {
  if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); })) {
    sequence.timeline.reset();
    return end(sequence, SequenceEnd::kFailed, "the model's logits are not finite");
  }
  const std::span<const std::int32_t> history(sequence.history);
  const auto prompt = static_cast<std::size_t>(sequence.prompt_tokens());
  const Choice choice = sequence.sampler.choose(logits, history.first(prompt), history.subspan(prompt),
                                                sequence.request.top_logprobs, sequence.client->allowed());
  if (sequence.generated() == 0) sequence.first_choice = Clock::now();
  sequence.history.push_back(choice.token);
  if (!sequence.client->on_token(choice)) return end(sequence, SequenceEnd::kStopped);
  const std::int64_t limit = sequence.request.max_tokens;
  if (limit > 0 && sequence.generated() >= limit) return end(sequence, SequenceEnd::kLength);
  if (std::ssize(sequence.history) > model_.context()) return end(sequence, SequenceEnd::kContext);
  sequence.timeline->push(choice.token);
}

void Scheduler::Engine::publish(std::int64_t step_tokens, std::int64_t step_choices, double seconds) {
  const std::lock_guard lock(mutex_);
  ++stats_.steps;
  stats_.computed_tokens += step_tokens;
  stats_.generated_tokens += step_choices;
  stats_.busy_seconds += seconds;
  stats_.running = static_cast<std::int64_t>(running_.size());
  stats_.page_bytes = model_.pages().used_bytes();
}

}  // namespace seekline
