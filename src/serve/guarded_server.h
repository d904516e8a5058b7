// cpp-httplib's server on our own connections: bounded in time, size and number, and silent where a client
// only wastes our time.
#pragma once

#include <atomic>
#include <string>

#include "serve/client_stream.h"

namespace seekline::serve {

/// Header that setup gives a request whose body this server does not read, with the reason.
inline constexpr const char* kUnreadable = "X-Seekline-Unreadable";

class GuardedServer final : public httplib::Server {
 public:
  GuardedServer(const ConnectionLimits& limits, int max_connections);

  /// Binds; port 0 picks a free one. Throws Error(kIo). Returns the port.
  int bind(const std::string& host, int port);
  /// Serves until stop_now().
  void serve();
  /// Connections between requests are closed; what is being answered breaks off.
  void stop_now();

  int connections() const { return connections_; }
  std::uint64_t refused_connections() const { return refused_; }

 private:
  bool process_and_close_socket(socket_t socket) override;
  void serve_connection(socket_t socket);

  const ConnectionLimits limits_;
  const int max_connections_;
  std::string host_;
  int port_ = 0;
  socket_t listener_ = INVALID_SOCKET;
  std::atomic<bool> stopping_{false};
  std::atomic<int> connections_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace seekline::serve
