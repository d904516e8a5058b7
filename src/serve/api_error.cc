#include "serve/api_error.h"

#include "engine/scheduler.h"

namespace seekline::serve {
namespace {

constexpr int kRetrySeconds = 5;

const char* openai_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 429:
      return "rate_limit_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

const char* anthropic_type(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 429:
      return "rate_limit_error";
    case 503:
      return "overloaded_error";
    default:
      return status >= 500 ? "api_error" : "invalid_request_error";
  }
}

ChatJson or_null(const std::string& text) { return text.empty() ? ChatJson(nullptr) : ChatJson(text); }

}  // namespace

ApiError api_error_of(const std::exception& error) {
  if (const auto* api = dynamic_cast<const ApiError*>(&error)) return *api;
  if (const auto* refused = dynamic_cast<const Refused*>(&error)) {
    switch (refused->why()) {
      case Refused::Why::kQueueFull:
        return {429, refused->what(), "queue_full", {}, kRetrySeconds};
      case Refused::Why::kShutdown:
        return {503, refused->what(), "shutting_down", {}, kRetrySeconds};
      case Refused::Why::kPromptTooLong:
        return {400, refused->what(), "context_length_exceeded"};
      case Refused::Why::kCacheTooSmall:
        return {400, refused->what(), "cache_limit_exceeded"};
    }
  }
  if (const auto* own = dynamic_cast<const Error*>(&error)) {
    if (own->code() == ErrorCode::kUsage || own->code() == ErrorCode::kUnsupported ||
        own->code() == ErrorCode::kLimit)
      return {400, own->what(), "invalid_value"};
    return {500, own->what(), "internal_error"};
  }
  return {500, "the server failed at this request", "internal_error"};
}

ChatJson openai_error(const ApiError& error) {
  return {{"error",
           {{"message", error.what()},
            {"type", openai_type(error.status())},
            {"param", or_null(error.param())},
            {"code", or_null(error.code())}}}};
}

ChatJson anthropic_error(const ApiError& error, const std::string& request_id) {
  return {{"type", "error"},
          {"error", {{"type", anthropic_type(error.status())}, {"message", error.what()}}},
          {"request_id", request_id}};
}

std::string to_text(const ChatJson& json) {
  return json.dump(-1, ' ', false, ChatJson::error_handler_t::replace);
}

}  // namespace seekline::serve
