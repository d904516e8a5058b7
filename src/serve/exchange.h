// One answer on its way to one client: events become bytes, silence becomes keep-alives, a client that goes
// away stops the work.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include <httplib.h>

#include "serve/api.h"
#include "serve/gone_watch.h"
#include "serve/log.h"
#include "serve/metrics.h"

namespace seekline::serve {

/// Used by its connection's thread.
class Exchange {
 public:
  using Clock = std::chrono::steady_clock;

  struct Parts {
    ApiCall call;
    std::shared_ptr<Generation> generation;
    ApiStyle style = ApiStyle::kOpenAi;
    std::string request_id, path;
    Clock::time_point arrived;
    std::shared_ptr<int> presence;  ///< held as long as the exchange lives
  };

  Exchange(Parts parts, GoneWatch& watch, Log& log, Metrics& metrics, std::chrono::milliseconds keep_alive);
  ~Exchange();
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Takes what comes until `deadline`; true: the answer is whole.
  bool wait(Clock::time_point deadline);
  /// Status and body of a whole answer that does not stream.
  void answer(httplib::Response& response);
  /// The next bytes of the answer, for a content provider; false: the client is gone.
  bool pump(httplib::DataSink& sink);

  bool streams() const { return parts_.call.streams; }

 private:
  bool send_next(httplib::DataSink& sink);
  void take(const GenerationEvent& event);
  std::string sign_of_life();
  const ChoiceOutcome* failed() const;
  std::string last_words();

  Parts parts_;
  GoneWatch& watch_;
  Log& log_;
  Metrics& metrics_;
  const std::chrono::milliseconds keep_alive_;
  Clock::time_point last_write_;
  int socket_ = -1;
  std::string out_;  // rendered and not sent yet
  bool finished_ = false;
  int status_ = 200;
  Clock::time_point last_piece_;
  std::optional<double> first_piece_seconds_;  // since it arrived
  std::string progress_;                       // of the prompt that is read, not told yet
};

}  // namespace seekline::serve
