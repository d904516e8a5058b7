// A request that cannot be answered, in terms that every API has words for.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "seekline/error.h"
#include "text/chat.h"

namespace seekline::serve {

class ApiError : public std::runtime_error {
 public:
  /// `code` and `param` as OpenAI's errors have them; may be empty. `retry_after` in seconds; 0: none.
  ApiError(int status, const std::string& message, std::string code = {}, std::string param = {},
           int retry_after = 0)
      : std::runtime_error(message),
        status_(status),
        code_(std::move(code)),
        param_(std::move(param)),
        retry_after_(retry_after) {}

  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::string& param() const { return param_; }
  int retry_after() const { return retry_after_; }

 private:
  int status_;
  std::string code_, param_;
  int retry_after_;
};

/// What an exception means to a client: what they asked for wrongly is a 400, a full queue a 429, our own
/// faults a 500 without details of the machine.
ApiError api_error_of(const std::exception& error);

/// {"error": {"message", "type", "param", "code"}}
ChatJson openai_error(const ApiError& error);
/// {"type": "error", "error": {"type", "message"}, "request_id"}
ChatJson anthropic_error(const ApiError& error, const std::string& request_id);

/// JSON in one line; what is not UTF-8 is replaced, never a failure.
std::string to_text(const ChatJson& json);

}  // namespace seekline::serve
