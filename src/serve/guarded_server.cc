#include "serve/guarded_server.h"

#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "seekline/error.h"
#include "serve/connection_threads.h"

namespace seekline::serve {
namespace {

constexpr int kBacklog = 1024;
constexpr std::size_t kSpareThreads = 8;  // those that tell connections beyond the limit so

std::string too_many_connections() {
  static constexpr std::string_view kBody =
      R"({"error":{"message":"too many connections","type":"server_error","param":null,"code":"connections"}})";
  return fmt::format(
      "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: "
      "close\r\n"
      "Content-Length: {}\r\n\r\n{}",
      kBody.size(), kBody);
}

void close_gently(socket_t socket) {
  // A close with unread input would reset the connection and lose our last words.
  shutdown(socket, SHUT_WR);
  timeval patience{0, 200000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  char waste[4096];
  for (int i = 0; i < 256 && recv(socket, waste, sizeof waste, 0) > 0; ++i) {
  }
  close(socket);
}

// What the library would act on and we do not want: ranges of answers, compression of answers (it would hold
// back events), forms, compressed bodies, bodies without an end.
void set_up(httplib::Request& request, ClientStream& stream) {
  request.ranges.clear();
  request.headers.erase("Range");
  request.headers.erase("Accept-Encoding");
  request.headers.erase(kUnreadable);
  const std::string encoding = request.get_header_value("Content-Encoding");
  if (!encoding.empty() && encoding != "identity")
    request.headers.emplace(kUnreadable, "compressed bodies are not read");
  request.headers.erase("Content-Encoding");
  const std::string type = request.get_header_value("Content-Type");
  if (type.rfind("multipart/", 0) == 0) request.headers.emplace(kUnreadable, "forms are not read; send JSON");
  if (type.rfind("multipart/", 0) == 0 || type.rfind("application/x-www-form-urlencoded", 0) == 0) {
    request.headers.erase("Content-Type");
    request.headers.emplace("Content-Type", "application/octet-stream");
  }
  const bool chunked = request.get_header_value("Transfer-Encoding") == "chunked";
  if (!chunked && !request.has_header("Content-Length")) request.headers.emplace("Content-Length", "0");
  std::int64_t length = 0;
  const std::string text = request.get_header_value("Content-Length");
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (!chunked && (error != std::errc() || end != text.data() + text.size() || length < 0 ||
                   request.get_header_value_count("Content-Length") > 1)) {
    request.headers.erase("Content-Length");
    request.headers.emplace("Content-Length", "0");
    request.headers.emplace(kUnreadable, "Content-Length is not one number");
    length = 1LL << 62;  // whatever follows is not the next request
  }
  stream.expect_body(chunked ? -1 : length);
}

}  // namespace

GuardedServer::GuardedServer(const ConnectionLimits& limits, int max_connections)
    : limits_(limits), max_connections_(max_connections) {
  // What answers say of it; the connection's own limits are ours.
  set_keep_alive_timeout(std::chrono::duration_cast<std::chrono::seconds>(limits.idle).count());
  set_keep_alive_max_count(100000);
  set_payload_max_length(static_cast<std::size_t>(limits.body_bytes));
  set_socket_options([this](socket_t socket) {
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    listener_ = socket;
  });
  new_task_queue = [max_connections] {
    return new ConnectionThreads(static_cast<std::size_t>(max_connections) + kSpareThreads);
  };
}

int GuardedServer::bind(const std::string& host, int port) {
  host_ = host;
  port_ = port == 0 ? bind_to_any_port(host) : (bind_to_port(host, port) ? port : -1);
  if (port_ <= 0)
    throw Error(ErrorCode::kIo,
                fmt::format("port {} of {} cannot be listened on; it may be in use", port, host));
  ::listen(listener_, kBacklog);  // the library asks for a queue of five
  return port_;
}

void GuardedServer::serve() {
  while (!stopping_) {
    listen_after_bind();
    if (stopping_) return;
    // An error of accept ends the library's loop; the server goes on all the same.
    while (!stopping_ && !bind_to_port(host_, port_)) usleep(100000);
    if (!stopping_) ::listen(listener_, kBacklog);
  }
}

void GuardedServer::stop_now() {
  stopping_ = true;
  stop();
}

bool GuardedServer::process_and_close_socket(socket_t socket) {
  if (++connections_ > max_connections_) {
    ++refused_;
    const std::string words = too_many_connections();
    send(socket, words.data(), words.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    close_gently(socket);
  } else {
    try {
      serve_connection(socket);
    } catch (const std::exception&) {  // memory ran out: this connection ends, the others go on
      ClientStream::current() = nullptr;
      close(socket);
    }
  }
  --connections_;
  return true;
}

void GuardedServer::serve_connection(socket_t socket) {
  const int yes = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ClientStream stream(socket, limits_, stopping_);
  ClientStream::current() = &stream;
  while (!stopping_ && stream.wait_for_request()) {
    bool closed = false;
    const bool served =
        process_request(stream, false, closed, [&](httplib::Request& request) { set_up(request, stream); });
    if (!served || closed || !stream.finish_request()) break;
  }
  ClientStream::current() = nullptr;
  close_gently(socket);
}

}  // namespace seekline::serve
