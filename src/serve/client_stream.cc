#include "serve/client_stream.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace seekline::serve {
namespace {

using Clock = std::chrono::steady_clock;

// Framing of chunked bodies beyond the body's own limit.
constexpr std::int64_t kFramingBytes = 1 << 20;
constexpr std::int64_t kMaxDrainBytes = 1 << 20;
constexpr std::chrono::milliseconds kMaxDrain{1000};

// Waits in short pieces, so that a stopping server is noticed.
bool wait_ready(socket_t socket, short events, Clock::time_point deadline,
                const std::atomic<bool>* stopping) {
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    pollfd state{socket, events, 0};
    const int ready = poll(&state, 1, static_cast<int>(std::min<std::int64_t>(left, 250)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (stopping && *stopping) return false;
  }
}

void address_text(const sockaddr_storage& address, std::string& ip, int& port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &address, sizeof v4);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    port = ntohs(v4.sin_port);
  } else if (address.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &address, sizeof v6);
    inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    port = ntohs(v6.sin6_port);
  }
  ip = text;
}

}  // namespace

ClientStream::ClientStream(socket_t socket, const ConnectionLimits& limits, const std::atomic<bool>& stopping)
    : socket_(socket), limits_(limits), stopping_(stopping), buffer_(16 << 10) {}

ClientStream*& ClientStream::current() {
  thread_local ClientStream* stream = nullptr;
  return stream;
}

bool ClientStream::wait_for_request() {
  in_header_ = true;
  taken_ = 0;
  body_ = 0;
  skips_body_ = false;
  if (begin_ == end_ && !wait_ready(socket_, POLLIN, Clock::now() + limits_.idle, &stopping_)) return false;
  deadline_ = Clock::now() + limits_.header;
  return begin_ < end_ || fill(deadline_);
}

void ClientStream::expect_body(std::int64_t bytes) {
  in_header_ = false;
  taken_ = 0;
  body_ = bytes;
  deadline_ = Clock::now() + limits_.body;
}

bool ClientStream::finish_request() {
  if (broken_ || header_too_large_ || body_too_large_ || timed_out_ || in_header_) return false;
  if (body_ < 0) return !skips_body_;
  const std::int64_t left = body_ - taken_;
  if (left > kMaxDrainBytes) return false;
  deadline_ = std::min(deadline_, Clock::now() + kMaxDrain);
  char waste[4096];
  for (std::int64_t done = 0; done < left;) {
    const ssize_t n = read(waste, static_cast<size_t>(std::min<std::int64_t>(left - done, sizeof waste)));
    if (n <= 0) return false;
    done += n;
  }
  return true;
}

bool ClientStream::gone() const {
  if (broken_) return true;
  pollfd state{socket_, POLLRDHUP, 0};
  return poll(&state, 1, 0) > 0 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) != 0;
}

bool ClientStream::fill(Clock::time_point deadline) {
  for (;;) {
    const ssize_t n = recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
    if (n > 0) {
      begin_ = 0;
      end_ = static_cast<size_t>(n);
      return true;
    }
    if (n == 0) return false;
    if (errno == EINTR) continue;
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      broken_ = true;
      return false;
    }
    if (!wait_ready(socket_, POLLIN, deadline, nullptr)) {
      timed_out_ = true;
      return false;
    }
  }
}

// Cuts `size` to what the limits allow; false: nothing more.
bool ClientStream::allow(size_t& size) {
  const std::int64_t limit = in_header_ ? limits_.header_bytes : limits_.body_bytes + kFramingBytes;
  if (taken_ >= limit) {
    (in_header_ ? header_too_large_ : body_too_large_) = true;
    return false;
  }
  size = static_cast<size_t>(std::min<std::int64_t>(static_cast<std::int64_t>(size), limit - taken_));
  return true;
}

ssize_t ClientStream::read(char* data, size_t size) {
  if (!allow(size)) return -1;
  if (begin_ == end_ && !fill(deadline_)) return broken_ || timed_out_ ? -1 : 0;
  const size_t n = std::min(size, end_ - begin_);
  std::memcpy(data, buffer_.data() + begin_, n);
  begin_ += n;
  taken_ += static_cast<std::int64_t>(n);
  return static_cast<ssize_t>(n);
}

ssize_t ClientStream::write(const char* data, size_t size) {
  for (;;) {
    const ssize_t n = send(socket_, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0) return n;
    if (errno == EINTR) continue;
    const bool full = errno == EAGAIN || errno == EWOULDBLOCK;
    if (!full || !wait_ready(socket_, POLLOUT, Clock::now() + limits_.write, nullptr)) {
      broken_ = true;
      return -1;
    }
  }
}

void ClientStream::get_remote_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getpeername(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    address_text(address, ip, port);
}

void ClientStream::get_local_ip_and_port(std::string& ip, int& port) const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    address_text(address, ip, port);
}

}  // namespace seekline::serve
