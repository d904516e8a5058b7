// Requests that nobody should send. The server answers or hangs up, in bounded time, and serves on.
#include "serve/served.h"

#include <random>

namespace seekline::serve {
namespace {

ServerOptions impatient() {
  ServerOptions options;
  options.connection.header = std::chrono::milliseconds(300);
  options.connection.body = std::chrono::milliseconds(300);
  options.connection.idle = std::chrono::milliseconds(300);
  options.connection.body_bytes = 1 << 20;
  options.max_connections = 40;
  return options;
}

int status_of(const std::string& reply) {
  return reply.size() > 12 && reply.rfind("HTTP/1.1 ", 0) == 0 ? std::stoi(reply.substr(9, 3)) : 0;
}

int status_after(const Served& served, const std::string& bytes) {
  const int socket = served.connect_and_send(bytes);
  shutdown(socket, SHUT_WR);
  const std::string reply = Served::read_until(socket, "\r\n");
  close(socket);
  return status_of(reply);
}

TEST(Abuse, BodiesThatAreNotARequestAre400s) {
  Served served(impatient());
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "[";
  const std::vector<std::string> bodies{
      "",
      "null",
      "[]",
      "1",
      "\"x\"",
      "{",
      "{}",
      "{\"messages\":",
      deep,
      "{\"messages\":" + deep,
      "\xff\xfe",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"\xc3\x28\"}]}",
      "{\"messages\": [{\"role\": \"user\", \"content\": \"\\ud800\"}]}",
      "{\"messages\": 1e999}",
      "{\"messages\": [1]}",
      "{\"messages\": {}}",
      std::string("{\"a\": \0}", 8),
      R"({"messages": [{"role": "tool", "content": "x", "tool_call_id": "y"}]})"};
  const std::vector<std::string> of_generations{
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": 99999999999999999999999})",
      R"({"messages": [{"role": "user", "content": "x"}], "max_tokens": -1})"};
  const auto expect_400 = [&](const char* path, const std::string& body) {
    const Served::Reply reply = served.post(path, body);
    EXPECT_EQ(reply.status, 400) << path << " " << body.substr(0, 80);
    EXPECT_TRUE(reply.json().contains("error")) << reply.body;
  };
  for (const char* path : {"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions",
                           "/tokenize", "/v1/messages/count_tokens"})
    for (const std::string& body : bodies) expect_400(path, body);
  for (const char* path : {"/v1/chat/completions", "/v1/messages"})
    for (const std::string& body : of_generations) expect_400(path, body);
}

TEST(Abuse, LimitsOfHttpAreSaid) {
  Served served(impatient());
  EXPECT_EQ(served.post("/v1/chat/completions", std::string(3 << 20, 'x')).status, 413);
  EXPECT_EQ(status_after(served, "GET /" + std::string(9000, 'a') + " HTTP/1.1\r\nHost: x\r\n\r\n"), 414);
  std::string flood = "GET /health HTTP/1.1\r\n";
  for (int i = 0; i < 20000; ++i) flood += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(status_after(served, flood + "\r\n"), 431);
  EXPECT_EQ(status_after(served, "NONSENSE\r\n\r\n"), 400);
  EXPECT_EQ(status_after(served, http_post("/tokenize", "{}", "Content-Encoding: gzip\r\n")), 415);
  EXPECT_EQ(status_after(served, http_post("/tokenize", "{}", "Content-Length: 5\r\n")), 400);
  EXPECT_EQ(status_after(served, "POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status_after(served, "POST /tokenize HTTP/1.1\r\nHost: x\r\n\r\n"), 400);
  const std::string chunked = "POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  EXPECT_EQ(status_after(served, chunked + "c\r\n{\"text\":\"a\"}\r\n0\r\n\r\n"), 200);
  std::string endless = chunked;
  for (int i = 0; i < 600; ++i) endless += "1000\r\n" + std::string(0x1000, 'x') + "\r\n";
  EXPECT_EQ(status_after(served, endless), 413);
  EXPECT_EQ(served.get("/health").status, 200);
}

TEST(Abuse, SlowAndSilentConnectionsAreClosed) {
  Served served(impatient());
  std::vector<int> sockets;
  for (int i = 0; i < 30; ++i)
    sockets.push_back(
        served.connect_and_send(i % 3 == 0   ? ""
                                : i % 3 == 1 ? "GET /hea"
                                             : http_post("/tokenize", "{\"text\": \"x\"}").substr(0, 90)));
  EXPECT_EQ(served.get("/health").status, 200);
  for (const int socket : sockets) {
    Served::read_until(socket, "never comes");  // returns when the server closes
    close(socket);
  }
  // Beyond the limit of connections there is a plain answer, too.
  sockets.clear();
  int refused = 0;
  for (int i = 0; i < 60; ++i) sockets.push_back(served.connect_and_send(""));
  for (const int socket : sockets) {
    if (status_of(Served::read_until(socket, "never comes")) == 503) ++refused;
    close(socket);
  }
  EXPECT_GT(refused, 0);
  EXPECT_TRUE(Served::soon([&] { return served.get("/health").status == 200; }));
}

TEST(Abuse, RandomDamageToRequestsHarmsNobody) {
  ServerOptions options = impatient();
  options.max_connections = 100;
  Served served(options);
  const ChatJson right =
      Served().post("/v1/chat/completions", say("hello there", 6)).json()["choices"][0]["message"];
  std::mt19937 random(17);
  const std::string good = http_post("/v1/chat/completions", to_text(say("hello there", 2)));
  for (int i = 0; i < 1500; ++i) {
    std::string bad = good;
    const std::size_t at = random() % bad.size();
    switch (random() % 4) {
      case 0:
        bad.resize(at);
        break;
      case 1:
        bad[at] = static_cast<char>(random());
        break;
      case 2:
        bad.insert(at, std::string(1 + random() % 300, static_cast<char>(random())));
        break;
      default:
        bad.erase(at, random() % 40);
        break;
    }
    const int socket = served.connect_and_send(bad);
    if (random() % 2 == 0) shutdown(socket, SHUT_WR);
    if (random() % 4 != 0) {
      timeval patience{0, 20000};
      setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
      Served::read_until(socket, "\r\n\r\n");
    }
    close(socket);
  }
  EXPECT_TRUE(Served::soon([&] { return served.stats().running + served.stats().waiting == 0; }));
  const Served::Reply reply = served.post("/v1/chat/completions", say("hello there", 6));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.json()["choices"][0]["message"], right);
}

}  // namespace
}  // namespace seekline::serve
