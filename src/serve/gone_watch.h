// Tells at once when a client goes away while its request is being served.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_map>

namespace seekline::serve {

/// One thread sleeps on all watched sockets. Thread-safe.
class GoneWatch {
 public:
  GoneWatch();
  ~GoneWatch();
  GoneWatch(const GoneWatch&) = delete;
  GoneWatch& operator=(const GoneWatch&) = delete;

  /// Calls `action` once, from the watch's thread, when the peer of `socket` closes or the connection breaks.
  void add(int socket, std::function<void()> action);
  /// After this returns the action neither runs nor will run.
  void remove(int socket);

 private:
  void run();

  int epoll_, wake_;
  std::mutex mutex_;
  std::unordered_map<int, std::function<void()>> actions_;
  std::thread thread_;
};

}  // namespace seekline::serve
