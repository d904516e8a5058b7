#include "core/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>

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

// Processors' worth of time that the process's control group may use, rounded up; 0 where nothing limits it.
int quota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  double time = 0, period = 0;
  if (!(file >> time >> period) || time <= 0 || period <= 0) return 0;  // "max" is no number
  return static_cast<int>(std::ceil(time / period));
}

// Keeps the calling thread on the processor of this number among those that the process may use.
void pin(int number) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (quota() > 0 || sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  for (int cpu = 0, seen = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || seen++ != number) continue;
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

ThreadPool::ThreadPool(int workers)
    : size_(std::max(1, workers)), thread_count_(std::min(size_, default_threads())) {
  threads_.reserve(static_cast<std::size_t>(thread_count_ - 1));
  for (int thread = 1; thread < thread_count_; ++thread)
    threads_.emplace_back([this, thread] { work(thread); });
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
  running_.store(thread_count_ - 1, std::memory_order_relaxed);
  stage_.fetch_add(1, std::memory_order_release);
  stage_.notify_all();
  call_workers(0);
  // Others may need the processors: yield soon, so that the threads we wait for can run.
  for (int spins = 0; running_.load(std::memory_order_acquire) != 0; ++spins) {
    if (spins < 2000) {
      relax();
    } else {
      std::this_thread::yield();
    }
  }
}

void ThreadPool::call_workers(int thread) {
  for (int worker = thread; worker < size_; worker += thread_count_) call_(task_, worker);
}

void ThreadPool::work(int thread) {
  pin(thread);
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
    call_workers(thread);
    running_.fetch_sub(1, std::memory_order_release);
  }
}

int default_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int count = static_cast<int>(std::thread::hardware_concurrency());
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
  const int limit = quota();
  return std::max(1, limit > 0 ? std::min(count, limit) : count);
}

}  // namespace seekline
