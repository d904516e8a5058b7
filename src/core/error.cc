#include "seekline/error.h"

#include <fmt/format.h>

namespace seekline {
namespace {

std::string heading(const std::string& subject, const std::vector<std::string>& problems) {
  if (problems.size() == 1) return fmt::format("{}: {}", subject, problems.front());
  std::string text = fmt::format("{}: {} problems", subject, problems.size());
  for (const std::string& problem : problems) text += "\n  - " + problem;
  return text;
}

}  // namespace

Error::Error(ErrorCode code, const std::string& sentence)
    : std::runtime_error(sentence), code_(code), problems_{sentence} {}

Error::Error(ErrorCode code, const std::string& subject, std::vector<std::string> problems)
    : std::runtime_error(heading(subject, problems)), code_(code), problems_(std::move(problems)) {}

}  // namespace seekline
