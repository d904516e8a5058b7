#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

#include "core/check.h"

namespace seekline {
namespace {

constexpr std::uint64_t kStop = std::uint64_t{1} << 63;
// About 50 microseconds: longer than any gap between two stages of one step, shorter than a person notices.
constexpr int kSpins = 20000;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Keeps the calling thread on one of the processors that the process may use, where each worker can have its
// own.
void pin(int worker, int workers) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < workers) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != worker) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    return;
  }
}

}  // namespace

WorkRange static_split(std::int64_t items, std::int64_t grain, int worker, int workers) {
  const std::int64_t grains = (items + grain - 1) / grain;
  const std::int64_t first = grains * worker / workers;
  const std::int64_t last = grains * (worker + 1) / workers;
  return {std::min(first * grain, items), std::min(last * grain, items)};
}

ThreadPool::ThreadPool(int threads) : size_(std::max(1, threads)) {
  threads_.reserve(static_cast<std::size_t>(size_ - 1));
  for (int worker = 1; worker < size_; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

ThreadPool::~ThreadPool() {
  stage_.fetch_or(kStop, std::memory_order_release);
  stage_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::dispatch(Call call, void* task) {
  SEEKLINE_CHECK(running_.load(std::memory_order_relaxed) == 0, "a stage was started inside a stage");
  call_ = call;
  task_ = task;
  running_.store(size_ - 1, std::memory_order_relaxed);
  stage_.fetch_add(1, std::memory_order_release);
  stage_.notify_all();
  call(task, 0);
  // More threads than processors: yield soon, so that the workers we wait for can run.
  for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < 2000) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::work(int worker) {
  pin(worker, size_);
  std::uint64_t seen = 0;
  for (;;) {
    std::uint64_t now = stage_.load(std::memory_order_acquire);
    for (int spins = 0; now == seen; now = stage_.load(std::memory_order_acquire)) {
      if (++spins < kSpins) {
        relax();
        if (spins % 2000 == 0) std::this_thread::yield();
      } else {
        stage_.wait(seen, std::memory_order_acquire);
      }
    }
    if (now & kStop) return;
    seen = now;
    call_(task_, worker);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

int default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace seekline
