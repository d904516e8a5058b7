// Who may ask: keys, origins; and the words of every refusal.
#include <arpa/inet.h>

#include <algorithm>

#include <fmt/format.h>

#include "serve/server.h"

namespace seekline::serve {
namespace {

ApiStyle style_of(const std::string& path) {
  return path.rfind("/v1/messages", 0) == 0 ? ApiStyle::kAnthropic : ApiStyle::kOpenAi;
}

// The time does not tell how much of a guess was right.
bool same_secret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 1 : b[i % b.size()]);
  return difference == 0;
}

// A name that no foreign web page can have pointed at us: localhost, or an address.
bool is_plain_host(std::string host) {
  if (const std::size_t port = host.rfind(':');
      port != std::string::npos && host.find(']', port) == std::string::npos)
    host.resize(port);
  if (host == "localhost") return true;
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  unsigned char address[16];
  return inet_pton(AF_INET, host.c_str(), address) == 1 || inet_pton(AF_INET6, host.c_str(), address) == 1;
}

bool needs_no_key(const std::string& path) { return path == "/health" || path == "/ready" || path == "/"; }

}  // namespace

bool Server::origin_allowed(const Request& request) const {
  const std::string origin = request.get_header_value("Origin");
  if (origin.empty()) return true;
  for (const std::string& allowed : options_.cors_origins)
    if (allowed == "*" || allowed == origin) return true;
  const std::string host = request.get_header_value("Host");
  return (origin == "http://" + host || origin == "https://" + host) &&
         (is_plain_host(host) || host.rfind(options_.host, 0) == 0);
}

void Server::allow_origin(const Request& request, Response& response) const {
  const std::string origin = request.get_header_value("Origin");
  if (origin.empty() || options_.cors_origins.empty() || !origin_allowed(request)) return;
  put_header(response, "Access-Control-Allow-Origin", origin);
  put_header(response, "Vary", "Origin");
  put_header(response, "Access-Control-Expose-Headers", "X-Request-Id, Request-Id, Retry-After");
}

bool Server::key_fits(const Request& request) const {
  if (options_.api_keys.empty()) return true;
  std::string given = request.get_header_value("X-Api-Key");
  const std::string authorization = request.get_header_value("Authorization");
  if (authorization.rfind("Bearer ", 0) == 0) given = authorization.substr(7);
  return std::any_of(options_.api_keys.begin(), options_.api_keys.end(),
                     [&](const std::string& key) { return same_secret(given, key); });
}

// Before anything of the body is read. False: the response is complete.
bool Server::admit(const Request& request, Response& response) {
  const auto refuse = [&](const ApiError& error) {
    if (ClientStream* stream = ClientStream::current()) stream->leave_body();
    send_error(request, response, error, random_id("req_"));
    return false;
  };
  if (!origin_allowed(request))
    return refuse(ApiError(
        403, "this server does not answer pages of other origins; start it with --cors-origin", "origin"));
  if (request.method == "OPTIONS") {
    allow_origin(request, response);
    if (!options_.cors_origins.empty()) {
      put_header(response, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
      const std::string asked = request.get_header_value("Access-Control-Request-Headers");
      put_header(response, "Access-Control-Allow-Headers",
                 asked.empty() ? "Authorization, Content-Type" : asked);
      put_header(response, "Access-Control-Max-Age", "600");
    }
    response.status = 204;
    return false;
  }
  if (!needs_no_key(request.path) && !key_fits(request)) {
    const bool given = request.has_header("Authorization") || request.has_header("X-Api-Key");
    return refuse(ApiError(401, given ? "the API key is not one of this server's" : "an API key is required",
                           "invalid_api_key"));
  }
  return true;
}

void Server::send_error(const Request& request, Response& response, const ApiError& error,
                        const std::string& id) {
  response.status = error.status();
  put_header(response, "X-Request-Id", id);
  if (error.retry_after() > 0) put_header(response, "Retry-After", std::to_string(error.retry_after()));
  allow_origin(request, response);
  const ChatJson body =
      style_of(request.path) == ApiStyle::kAnthropic ? anthropic_error(error, id) : openai_error(error);
  response.set_content(to_text(body), "application/json");
  log_.write(error.status() >= 500 ? LogLevel::kError : LogLevel::kInfo, "refused",
             {{"id", id},
              {"path", request.path.substr(0, 200)},
              {"status", error.status()},
              {"code", error.code()},
              {"message", std::string(error.what()).substr(0, 500)}});
  metrics_.count_request("refused", error.status());
}

// Errors that the HTTP library found by itself have a status and no body.
void Server::complete_error(const Request& request, Response& response) {
  if (!response.body.empty() || response.content_provider_) return;
  const ClientStream* stream = ClientStream::current();
  int status = response.status;
  if (stream && stream->header_too_large()) status = 431;
  if (stream && stream->body_too_large()) status = 413;
  if (stream && stream->timed_out()) status = 408;
  const auto same_path =
      std::find_if(known_.begin(), known_.end(), [&](const auto& k) { return k.first == request.path; });
  std::string message;
  switch (status) {
    case 404:
      if (same_path != known_.end()) {
        status = 405;
        message = fmt::format("{} takes {}", request.path, same_path->second);
        put_header(response, "Allow", same_path->second);
      } else {
        message = "there is nothing at this path; see docs/api.md";
      }
      break;
    case 408:
      message = "the request took too long to arrive";
      break;
    case 413:
      message = fmt::format("the body is larger than this server's limit of {} bytes",
                            options_.connection.body_bytes);
      break;
    case 414:
      message = "the request's path is too long";
      break;
    case 431:
      message = fmt::format("the header is larger than {} bytes", options_.connection.header_bytes);
      break;
    default:
      message =
          status >= 500 ? "the server failed at this request" : "this is not a well-formed HTTP request";
  }
  send_error(request, response, ApiError(status, message, status == 413 ? "body_too_large" : "http"),
             random_id("req_"));
}

}  // namespace seekline::serve
