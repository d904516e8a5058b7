// A whole server with the tiny model, in this process, and ways to talk to it.
#pragma once

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "serve/scripted.h"
#include "serve/server.h"

namespace seekline::serve {

class Served {
 public:
  explicit Served(ServerOptions options = {}, ServiceOptions service = tiny_service_options(),
                  std::shared_ptr<Model> model = open_tiny()) {
    options.port = 0;
    options.log = nullptr;
    server_ = std::make_unique<Server>(model, prefixes_of(*model), service, options);
    port_ = server_->bind();
    thread_ = std::thread([this] { server_->serve(); });
    for (int i = 0; i < 500 && !client().Get("/health"); ++i) usleep(2000);
  }
  ~Served() { stop(); }

  void stop() {
    if (!thread_.joinable()) return;
    server_->shutdown();
    thread_.join();
  }

  int port() const { return port_; }
  Server& server() { return *server_; }
  SchedulerStats stats() { return server_->service().scheduler().stats(); }

  httplib::Client client() const {
    httplib::Client client("127.0.0.1", port_);
    client.set_read_timeout(60);
    return client;
  }

  struct Reply {
    int status = 0;
    std::string body;
    httplib::Headers headers;
    ChatJson json() const { return ChatJson::parse(body, nullptr, false); }
  };

  Reply post(const std::string& path, const std::string& body, const httplib::Headers& headers = {}) const {
    auto result = client().Post(path, headers, body, "application/json");
    if (!result) return {};
    return {result->status, result->body, result->headers};
  }
  Reply post(const std::string& path, const ChatJson& body, const httplib::Headers& headers = {}) const {
    return post(path, to_text(body), headers);
  }
  Reply get(const std::string& path, const httplib::Headers& headers = {}) const {
    auto result = client().Get(path, headers);
    if (!result) return {};
    return {result->status, result->body, result->headers};
  }

  /// A raw connection that has sent `bytes`.
  int connect_and_send(const std::string& bytes) const {
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port_));
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    timeval patience{20, 0};
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return socket;
  }

  /// Everything that comes until the server closes or `enough` is there.
  static std::string read_until(int socket, const std::string& enough) {
    std::string text;
    char piece[4096];
    while (text.find(enough) == std::string::npos) {
      const ssize_t n = recv(socket, piece, sizeof piece, 0);
      if (n <= 0) break;
      text.append(piece, static_cast<std::size_t>(n));
    }
    return text;
  }

  template <typename Condition>
  static bool soon(Condition condition) {
    for (int i = 0; i < 2000; ++i) {
      if (condition()) return true;
      usleep(5000);
    }
    return false;
  }

 private:
  std::unique_ptr<Server> server_;
  int port_ = 0;
  std::thread thread_;
};

inline std::string http_post(const std::string& path, const std::string& body, const std::string& more = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

inline ChatJson say(const std::string& text, std::int64_t max_tokens = 12) {
  return {
      {"messages", {{{"role", "user"}, {"content", text}}}}, {"max_tokens", max_tokens}, {"temperature", 0}};
}

}  // namespace seekline::serve
