// One JSON object a line, on standard error.
#pragma once

#include <mutex>
#include <string_view>

#include "text/chat.h"

namespace seekline::serve {

enum class LogLevel : std::uint8_t { kError, kWarning, kInfo };

/// Thread-safe.
class Log {
 public:
  /// `file` is not owned; null: nothing is written.
  explicit Log(std::FILE* file) : file_(file) {}
  void write(LogLevel level, std::string_view event, const ChatJson& fields = ChatJson::object());

 private:
  std::FILE* file_;
  std::mutex mutex_;
};

}  // namespace seekline::serve
