#include "serve/server.h"

#include <thread>

#include <fmt/format.h>

namespace seekline::serve {

using Clock = std::chrono::steady_clock;

Server::Server(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes,
               const ServiceOptions& service, const ServerOptions& options)
    : options_(options),
      log_(options.log),
      service_(std::move(model), std::move(prefixes), service),
      http_(options.connection, options.max_connections) {
  http_.set_pre_routing_handler([this](const Request& request, Response& response) {
    return admit(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                    : httplib::Server::HandlerResponse::Handled;
  });
  http_.set_error_handler(
      [this](const Request& request, Response& response) { complete_error(request, response); });
  http_.set_exception_handler([this](const Request& request, Response& response, std::exception_ptr thrown) {
    try {
      std::rethrow_exception(std::move(thrown));
    } catch (const std::exception& error) {
      send_error(request, response, api_error_of(error), random_id("req_"));
    } catch (...) {
      send_error(request, response, ApiError(500, "the server failed at this request", "internal_error"),
                 random_id("req_"));
    }
  });
  add_routes();
}

Server::~Server() = default;

int Server::bind() { return http_.bind(options_.host, options_.port); }

void Server::serve() { http_.serve(); }

void Server::shutdown() {
  draining_ = true;
  service_.scheduler().close();
  log_.write(LogLevel::kInfo, "shutdown",
             {{"grace_seconds", static_cast<double>(options_.shutdown_grace.count()) / 1e3}});
  const bool idle = service_.scheduler().wait_idle(options_.shutdown_grace);
  service_.scheduler().stop();
  const Clock::time_point last = Clock::now() + std::chrono::seconds(2);
  while (presence_.use_count() > 1 && Clock::now() < last)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  http_.stop_now();
  log_.write(LogLevel::kInfo, "stopped", {{"all_finished", idle}});
}

void put_header(httplib::Response& response, const std::string& name, const std::string& value) {
  response.headers.erase(name);
  response.headers.emplace(name, value);
}

void Server::handle(const Request& request, Response& response, const Action& action, bool reports_itself) {
  const Clock::time_point start = Clock::now();
  const std::string id = random_id("req_");
  put_header(response, "X-Request-Id", id);
  put_header(response, "Request-Id", id);
  allow_origin(request, response);
  try {
    if (request.has_header(kUnreadable))
      throw ApiError(request.has_header("Content-Length") && request.body.empty() ? 400 : 415,
                     request.get_header_value(kUnreadable), "unreadable_body");
    action(request, response, id);
    if (reports_itself) return;
    metrics_.count_request(request.path, response.status < 0 ? 200 : response.status);
    metrics_.observe_request(std::chrono::duration<double>(Clock::now() - start).count());
  } catch (const std::exception& error) {
    send_error(request, response, api_error_of(error), id);
  }
}

void Server::begin(const Request& request, Response& response, Exchange::Parts parts) {
  const Clock::time_point first_byte = parts.arrived + options_.first_byte;
  auto exchange = std::make_shared<Exchange>(std::move(parts), watch_, log_, metrics_, options_.keep_alive);
  if (!exchange->streams() && exchange->wait(first_byte)) return exchange->answer(response);
  const std::string type = exchange->streams() ? "text/event-stream" : "application/json";
  put_header(response, "Cache-Control", "no-cache");
  put_header(response, "X-Accel-Buffering", "no");
  const auto provider = [exchange](std::size_t, httplib::DataSink& sink) { return exchange->pump(sink); };
  if (request.version == "HTTP/1.0") {
    response.set_content_provider(type, provider);
  } else {
    response.set_chunked_content_provider(type, provider);
  }
}

}  // namespace seekline::serve
