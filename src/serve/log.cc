#include "serve/log.h"

#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "serve/api_error.h"

namespace seekline::serve {
namespace {

std::string now_text() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto millis = std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
  const std::time_t seconds = static_cast<std::time_t>(millis / 1000);
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
  return fmt::format("{}.{:03}Z", std::string_view(text, n), millis % 1000);
}

}  // namespace

void Log::write(LogLevel level, std::string_view event, const ChatJson& fields) {
  if (!file_) return;
  static constexpr const char* kNames[] = {"error", "warning", "info"};
  ChatJson line{{"time", now_text()}, {"level", kNames[static_cast<int>(level)]}, {"event", event}};
  for (const auto& [key, value] : fields.items()) line[key] = value;
  const std::string text = to_text(line) + "\n";
  const std::lock_guard lock(mutex_);
  std::fwrite(text.data(), 1, text.size(), file_);
  std::fflush(file_);
}

}  // namespace seekline::serve
