// The HTTP server: routes, keys, origins, limits, logging, shutdown.
#pragma once

#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "serve/exchange.h"
#include "serve/guarded_server.h"
#include "serve/service.h"

namespace seekline::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;                        ///< 0: any free one
  std::vector<std::string> api_keys;      ///< none: no key is asked for
  std::vector<std::string> cors_origins;  ///< origins whose pages may call us; "*": all
  int max_connections = 512;
  ConnectionLimits connection;
  std::chrono::milliseconds keep_alive{10000};      ///< silence after which a waiting client hears something
  std::chrono::milliseconds first_byte{800};        ///< an answer that takes longer begins with its header
  std::chrono::milliseconds shutdown_grace{30000};  ///< what runs may take this long to finish
  double read_gb_s = 0;  ///< what the machine's memory reads, for /stats; 0: not measured
  std::FILE* log = stderr;
};

/// In place of a header of that name that is there already.
void put_header(httplib::Response& response, const std::string& name, const std::string& value);

class Server {
 public:
  Server(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes, const ServiceOptions& service,
         const ServerOptions& options);
  ~Server();

  /// Listens; returns the port. Throws Error(kIo).
  int bind();
  /// Serves until shutdown() has ended.
  void serve();
  /// Refuses new work, lets what runs finish within the grace, ends the rest, and makes serve() return. From
  /// any thread, once.
  void shutdown();

  Service& service() { return service_; }
  Log& log() { return log_; }

 private:
  using Request = httplib::Request;
  using Response = httplib::Response;
  using Action = std::function<void(const Request&, Response&, const std::string& id)>;
  using Start = std::function<ApiCall(const ChatJson& body, const std::string& id)>;

  void add_routes();
  void add_api_routes();
  void add_model_routes();
  void add_token_routes();
  void add_operation_routes();
  void get(const std::string& path, Action action);
  void post(const std::string& path, Action action, bool reports_itself = false);
  void generates(const std::string& path, Start start);

  bool admit(const Request& request, Response& response);
  void allow_origin(const Request& request, Response& response) const;
  bool origin_allowed(const Request& request) const;
  bool key_fits(const Request& request) const;
  /// `reports_itself`: an exchange counts the request at its end.
  void handle(const Request& request, Response& response, const Action& action, bool reports_itself = false);
  void send_error(const Request& request, Response& response, const ApiError& error, const std::string& id);
  void complete_error(const Request& request, Response& response);
  void begin(const Request& request, Response& response, Exchange::Parts parts);
  ChatJson stats_json();

  const ServerOptions options_;
  Log log_;
  Metrics metrics_;
  GoneWatch watch_;
  Service service_;
  GuardedServer http_;
  std::vector<std::pair<std::string, std::string>> known_;    // path, method
  std::shared_ptr<int> presence_ = std::make_shared<int>(0);  // one more owner for every exchange
  std::atomic<bool> draining_{false};
};

}  // namespace seekline::serve
