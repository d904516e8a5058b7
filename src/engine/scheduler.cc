#include "engine/scheduler.h"

#include <fmt/format.h>

#include "core/check.h"
#include "engine/scheduler_engine.h"

namespace seekline {

std::int64_t page_bytes_at(const PagePool& pool, std::int64_t tokens) {
  const std::int64_t pages = (tokens + kPageTokens - 1) / kPageTokens;
  std::int64_t sum = 0;
  for (const Store& store : pool.plan().stores)
    if (store.growing()) sum += pages * pool.padded_page_bytes(store.id);
  return sum;
}

Scheduler::Scheduler(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes,
                     const SchedulerOptions& options)
    : model_(std::move(model)), engine_(std::make_unique<Engine>(*model_, std::move(prefixes), options)) {}
Scheduler::~Scheduler() = default;

std::vector<Scheduler::Id> Scheduler::submit(std::vector<SequenceRequest> requests,
                                             std::vector<std::shared_ptr<SequenceClient>> clients) {
  return engine_->submit(std::move(requests), std::move(clients));
}

Scheduler::Id Scheduler::submit(SequenceRequest request, std::shared_ptr<SequenceClient> client) {
  std::vector<SequenceRequest> requests;
  requests.push_back(std::move(request));
  return engine_->submit(std::move(requests), {std::move(client)}).front();
}

void Scheduler::cancel(Id id) { engine_->cancel(id); }
void Scheduler::close() { engine_->close(); }
void Scheduler::stop() { engine_->stop(); }
bool Scheduler::wait_idle(std::chrono::milliseconds limit) { return engine_->wait_idle(limit); }
SchedulerStats Scheduler::stats() const { return engine_->stats(); }

namespace {

void check_options(const SchedulerOptions& o) {
  const auto positive = [](const char* name, std::int64_t value) {
    if (value < 1)
      throw Error(ErrorCode::kUsage, fmt::format("{} is {}, but must be at least 1", name, value));
  };
  positive("the number of sequences computed together", o.max_running);
  positive("the queue's length", o.max_waiting);
  positive("the prompt chunk beside decodes", o.chunk_beside);
}

}  // namespace

Scheduler::Engine::Engine(Model& model, std::shared_ptr<PrefixCache> prefixes,
                          const SchedulerOptions& options)
    : model_(model), options_(options), prefixes_(std::move(prefixes)) {
  check_options(options);
  thread_ = std::thread([this] { run(); });
}

Scheduler::Engine::~Engine() { stop(); }

void Scheduler::Engine::stop() {
  const std::lock_guard once(stopping_);
  {
    const std::lock_guard lock(mutex_);
    closed_ = stop_ = true;
  }
  work_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Scheduler::Engine::check(const SequenceRequest& request) const {
  if (request.prompt.empty())
    throw Error(ErrorCode::kUsage, "the prompt is empty, and there is nothing to continue");
  if (request.max_tokens < 0) throw Error(ErrorCode::kUsage, "max_tokens is negative");
  for (const std::int32_t token : request.prompt)
    if (token < 0 || token >= model_.vocab_size())
      throw Error(ErrorCode::kUsage,
                  fmt::format("token {} is not in the vocabulary of {} tokens", token, model_.vocab_size()));
  const auto tokens = static_cast<std::int64_t>(request.prompt.size());
  if (tokens > model_.context())
    throw Refused(
        Refused::Why::kPromptTooLong,
        fmt::format("the prompt has {} tokens, and the context holds {}", tokens, model_.context()));
  const std::int64_t limit = model_.pages().limit_bytes();
  const std::int64_t needed = page_bytes_at(model_.pages(), tokens + 1);
  if (limit != 0 && needed > limit)
    throw Refused(
        Refused::Why::kCacheTooSmall,
        fmt::format("a prompt of {} tokens needs {} bytes of cache, and the cache limit is {} bytes", tokens,
                    needed, limit));
}

std::vector<Scheduler::Id> Scheduler::Engine::submit(std::vector<SequenceRequest> requests,
                                                     std::vector<std::shared_ptr<SequenceClient>> clients) {
  SEEKLINE_CHECK(requests.size() == clients.size(), "every sequence has its client");
  std::vector<std::unique_ptr<Sequence>> sequences;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    check(requests[i]);
    sequences.push_back(std::make_unique<Sequence>(0, std::move(requests[i]), std::move(clients[i])));
  }
  std::vector<Id> ids;
  {
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::int64_t>(sequences.size());
    if (closed_) throw Refused(Refused::Why::kShutdown, "the server is shutting down");
    if (in_queue_ + count > options_.max_waiting) {
      stats_.refused += count;
      throw Refused(Refused::Why::kQueueFull, fmt::format("the queue is full: {} requests wait, and {} may",
                                                          in_queue_, options_.max_waiting));
    }
    for (auto& sequence : sequences) {
      ids.push_back(sequence->id = next_id_++);
      inbox_.push_back(std::move(sequence));
    }
    in_queue_ += count;
    alive_ += count;
    stats_.accepted += count;
  }
  work_.notify_all();
  return ids;
}

void Scheduler::Engine::cancel(Id id) {
  {
    const std::lock_guard lock(mutex_);
    if (alive_ == 0) return;
    cancelled_.insert(id);
  }
  work_.notify_all();
}

void Scheduler::Engine::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
}

bool Scheduler::Engine::wait_idle(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  return idle_.wait_for(lock, limit, [this] { return alive_ == 0; });
}

SchedulerStats Scheduler::Engine::stats() const {
  const std::lock_guard lock(mutex_);
  SchedulerStats stats = stats_;
  stats.waiting = in_queue_;
  return stats;
}

}  // namespace seekline
