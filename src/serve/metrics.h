// What /metrics tells Prometheus.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "engine/scheduler.h"

namespace seekline::serve {

/// Thread-safe.
class Metrics {
 public:
  Metrics();
  ~Metrics();

  /// Answered or refused; `path` is one of the server's own, or "refused".
  void count_request(const std::string& path, int status);
  /// A request that was answered, first to last byte.
  void observe_request(double seconds);
  /// From a request to the first piece of its answer.
  void observe_first_token(double seconds);
  /// The seconds between two pieces of one answer.
  void observe_gap(double seconds);

  /// The text that a scrape gets; the gauges and the scheduler's counters are set from `stats` first.
  std::string text(const SchedulerStats& stats, int connections, std::uint64_t refused_connections);

 private:
  struct Families;
  std::unique_ptr<Families> families_;
  std::mutex mutex_;  // of text()
};

}  // namespace seekline::serve
