#include "engine/stop_strings.h"

#include <algorithm>

namespace seekline {
namespace {

// Length of the longest end of `text` that a stop string begins with.
std::size_t possible_start(std::string_view text, const std::vector<std::string>& stops) {
  std::size_t longest = 0;
  for (const std::string& stop : stops)
    for (std::size_t n = std::min(stop.size() - 1, text.size()); n > longest; --n)
      if (text.substr(text.size() - n) == std::string_view(stop).substr(0, n)) longest = n;
  return longest;
}

}  // namespace

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& s) { return s.empty(); });
}

std::string StopStrings::push(std::string_view text) {
  if (matched_) return {};
  held_ += text;
  std::size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t at = held_.find(stop);
    if (at < first) {
      first = at;
      match_ = stop;
    }
  }
  if (first != std::string::npos) {
    matched_ = true;
    held_.resize(first);
    return std::move(held_);
  }
  const std::size_t certain = held_.size() - possible_start(held_, stops_);
  std::string out = held_.substr(0, certain);
  held_.erase(0, certain);
  return out;
}

std::string StopStrings::flush() {
  if (matched_) return {};
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace seekline
