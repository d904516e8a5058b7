#include "serve/metrics.h"

#include <unistd.h>

#include <fstream>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

namespace seekline::serve {
namespace {

std::int64_t resident_bytes() {
  std::ifstream in("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  in >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

const prometheus::Histogram::BucketBoundaries kSeconds{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1,
                                                       2.5,  5,     10,   30,  60,   300};
const prometheus::Histogram::BucketBoundaries kGaps{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                                    0.25,  0.5,    1,     2.5,  5,     15};

}  // namespace

struct Metrics::Families {
  using Counter = prometheus::Counter;
  using Gauge = prometheus::Gauge;
  prometheus::Registry registry;

  prometheus::Family<Counter>& requests = prometheus::BuildCounter()
                                              .Name("seekline_http_requests_total")
                                              .Help("Requests by path and status")
                                              .Register(registry);
  prometheus::Histogram& request_seconds =
      histogram("seekline_request_seconds", "Requests that were answered, first to last byte", kSeconds);
  prometheus::Histogram& first_token =
      histogram("seekline_first_token_seconds", "From request to first token", kSeconds);
  prometheus::Histogram& gaps =
      histogram("seekline_token_gap_seconds", "Between two pieces of one answer", kGaps);
  Counter& prompt = counter("seekline_prompt_tokens_total", "Tokens of prompts that were begun");
  Counter& reused = counter("seekline_reused_tokens_total", "Of them, tokens found in a cache");
  Counter& computed = counter("seekline_computed_tokens_total", "Tokens computed, prompts and answers");
  Counter& generated = counter("seekline_generated_tokens_total", "Tokens chosen");
  Counter& steps = counter("seekline_steps_total", "Forwards");
  Counter& busy = counter("seekline_busy_seconds_total", "Time inside forwards");
  Counter& preempted =
      counter("seekline_preemptions_total", "Sequences put back to the queue for want of cache");
  Counter& refused = counter("seekline_refused_total", "Sequences refused because the queue was full");
  Counter& cancelled = counter("seekline_cancelled_total",
                               "Sequences that ended because their client went away or the server shut down");
  Counter& failed = counter("seekline_failed_total", "Sequences that failed");
  Counter& refused_connections =
      counter("seekline_refused_connections_total", "Connections beyond the limit");
  Gauge& running = gauge("seekline_running", "Sequences computed together");
  Gauge& waiting = gauge("seekline_waiting", "Sequences in the queue");
  Gauge& kept = gauge("seekline_kept_timelines", "Timelines kept for requests that begin like them");
  Gauge& kept_bytes = gauge("seekline_kept_bytes", "Their memory");
  Gauge& page_bytes = gauge("seekline_cache_page_bytes", "Cache pages in use");
  Gauge& connections = gauge("seekline_connections", "Open connections");
  Gauge& resident =
      gauge("seekline_resident_bytes", "Resident memory of the process, mapped weights included");

  Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add({});
  }
  Gauge& gauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add({});
  }
  prometheus::Histogram& histogram(const char* name, const char* help,
                                   const prometheus::Histogram::BucketBoundaries& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, bounds);
  }
};

Metrics::Metrics() : families_(std::make_unique<Families>()) {}
Metrics::~Metrics() = default;

void Metrics::count_request(const std::string& path, int status) {
  families_->requests.Add({{"path", path}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::observe_request(double seconds) { families_->request_seconds.Observe(seconds); }

void Metrics::observe_first_token(double seconds) { families_->first_token.Observe(seconds); }

void Metrics::observe_gap(double seconds) { families_->gaps.Observe(seconds); }

std::string Metrics::text(const SchedulerStats& s, int connections, std::uint64_t refused_connections) {
  Families& f = *families_;
  const std::lock_guard lock(mutex_);
  const auto raise = [](prometheus::Counter& counter, double to) {
    if (to > counter.Value()) counter.Increment(to - counter.Value());
  };
  raise(f.prompt, static_cast<double>(s.prompt_tokens));
  raise(f.reused, static_cast<double>(s.reused_tokens));
  raise(f.computed, static_cast<double>(s.computed_tokens));
  raise(f.generated, static_cast<double>(s.generated_tokens));
  raise(f.steps, static_cast<double>(s.steps));
  raise(f.busy, s.busy_seconds);
  raise(f.preempted, static_cast<double>(s.preempted));
  raise(f.refused, static_cast<double>(s.refused));
  raise(f.cancelled, static_cast<double>(s.cancelled));
  raise(f.failed, static_cast<double>(s.failed));
  raise(f.refused_connections, static_cast<double>(refused_connections));
  f.running.Set(static_cast<double>(s.running));
  f.waiting.Set(static_cast<double>(s.waiting));
  f.kept.Set(static_cast<double>(s.kept_timelines));
  f.kept_bytes.Set(static_cast<double>(s.kept_bytes));
  f.page_bytes.Set(static_cast<double>(s.page_bytes));
  f.connections.Set(connections);
  f.resident.Set(static_cast<double>(resident_bytes()));
  return prometheus::TextSerializer().Serialize(f.registry.Collect());
}

}  // namespace seekline::serve
