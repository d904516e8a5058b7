// A persistent team of threads for fork-join stages with static splits.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

namespace seekline {

/// A half-open range of work items.
struct WorkRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const { return end - begin; }
};

/// The share of worker `worker` of `workers` in `items` items, cut at multiples of `grain`. The split depends
/// on these numbers only; results must not depend on it (docs/exactness.md).
WorkRange static_split(std::int64_t items, std::int64_t grain, int worker, int workers);

/// A team of workers on as many threads, but no more than there are processors: a thread then is several
/// workers, one after the other, since threads that wait for each other on one processor are far slower. The
/// caller of `run` is the first thread. One `run` at a time, from one thread.
/// Threads spin for a short while after a stage and then park, so that an idle engine uses no CPU. They are
/// pinned to a processor each, unless the system limits time instead of processors; the caller goes where the
/// system puts it.
class ThreadPool {
 public:
  explicit ThreadPool(int workers);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return size_; }

  /// Calls `task(worker)` on every worker and returns when all are done. `task` must not throw.
  template <typename Task>
  void run(Task&& task) {
    if (size_ == 1) return task(0);
    dispatch([](void* self, int worker) { (*static_cast<std::remove_reference_t<Task>*>(self))(worker); },
             &task);
  }

  /// Splits `items` statically and calls `task(range, worker)` for every non-empty share.
  template <typename Task>
  void split(std::int64_t items, std::int64_t grain, Task&& task) {
    run([&](int worker) {
      const WorkRange range = static_split(items, grain, worker, size_);
      if (range.size() > 0) task(range, worker);
    });
  }

  /// Calls `task(item, worker)` for every item; workers take them in ascending order as they become free, so
  /// the largest should come first.
  template <typename Task>
  void deal(std::int64_t items, Task&& task) {
    std::atomic<std::int64_t> next{0};
    run([&](int worker) {
      for (std::int64_t item; (item = next.fetch_add(1, std::memory_order_relaxed)) < items;)
        task(item, worker);
    });
  }

 private:
  using Call = void (*)(void*, int);
  void dispatch(Call call, void* task);
  void work(int thread);
  void call_workers(int thread);

  const int size_;
  const int thread_count_;
  Call call_ = nullptr;
  void* task_ = nullptr;
  alignas(64) std::atomic<std::uint64_t> stage_{0};  // counts stages started; the top bit asks to stop
  alignas(64) std::atomic<int> running_{0};          // threads that have not finished the stage
  std::vector<std::thread> threads_;
};

/// Threads to use by default: the processors this process may run on, or that its control group (version 2)
/// gives it the time of.
int default_threads();

}  // namespace seekline
