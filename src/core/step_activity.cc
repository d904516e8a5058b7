#include "core/step_activity.h"

#include <atomic>
#include <cstdint>

namespace seekline {
namespace {

std::atomic<int> running{0};
std::atomic<std::int64_t> last_end{INT64_MIN / 2};  // ticks of the steady clock

std::int64_t ticks() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

}  // namespace

StepActivity::StepActivity() { running.fetch_add(1, std::memory_order_relaxed); }

StepActivity::~StepActivity() {
  last_end.store(ticks(), std::memory_order_relaxed);
  running.fetch_sub(1, std::memory_order_release);
}

bool StepActivity::any(std::chrono::steady_clock::duration lately) {
  return running.load(std::memory_order_acquire) > 0 ||
         ticks() - last_end.load(std::memory_order_relaxed) < lately.count();
}

}  // namespace seekline
