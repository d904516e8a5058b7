// A client's connection: reads and writes that end in bounded time and size, whatever the client does.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <httplib.h>

namespace seekline::serve {

struct ConnectionLimits {
  std::int64_t header_bytes = 64 << 10;
  std::int64_t body_bytes = 16 << 20;
  std::chrono::milliseconds idle{15000};    ///< between requests of one connection
  std::chrono::milliseconds header{10000};  ///< for a whole header
  std::chrono::milliseconds body{60000};    ///< for a whole body
  std::chrono::milliseconds write{30000};   ///< without the client taking a byte
};

/// One thread at a time. Does not own the socket.
class ClientStream final : public httplib::Stream {
 public:
  ClientStream(socket_t socket, const ConnectionLimits& limits, const std::atomic<bool>& stopping);

  /// Waits for a request's first byte; false: none came.
  bool wait_for_request();
  /// The header has been read; a body of this many bytes follows (-1: chunked).
  void expect_body(std::int64_t bytes);
  /// The request is answered without reading its body: the connection ends, where that cannot be skipped.
  void leave_body() { skips_body_ = true; }
  /// Reads away what is left of the request; false: the connection cannot be used for another.
  bool finish_request();

  bool header_too_large() const { return header_too_large_; }
  bool body_too_large() const { return body_too_large_; }
  bool timed_out() const { return timed_out_; }
  /// The client has closed its side, or the connection is broken.
  bool gone() const;

  /// The stream whose request the calling thread serves; null elsewhere.
  static ClientStream*& current();

  bool is_readable() const override { return begin_ < end_; }
  bool is_writable() const override { return !gone(); }
  ssize_t read(char* data, size_t size) override;
  ssize_t write(const char* data, size_t size) override;
  void get_remote_ip_and_port(std::string& ip, int& port) const override;
  void get_local_ip_and_port(std::string& ip, int& port) const override;
  socket_t socket() const override { return socket_; }

 private:
  using Clock = std::chrono::steady_clock;
  bool fill(Clock::time_point deadline);
  bool allow(size_t& size);

  const socket_t socket_;
  const ConnectionLimits& limits_;
  const std::atomic<bool>& stopping_;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;
  bool in_header_ = true;
  std::int64_t taken_ = 0;  // bytes of the header, then of the body
  std::int64_t body_ = 0;   // as expect_body
  Clock::time_point deadline_;
  bool header_too_large_ = false, body_too_large_ = false, timed_out_ = false, broken_ = false,
       skips_body_ = false;
};

}  // namespace seekline::serve
