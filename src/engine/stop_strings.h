// Ends a stream of text at the first of several strings.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace seekline {

/// Holds back text that may be the start of a stop string; never lets a piece of one through.
class StopStrings {
 public:
  /// Empty strings are left out.
  explicit StopStrings(std::vector<std::string> stops);

  /// Text that is certain to stand before any stop string. After a match: what stood before it, then nothing
  /// more.
  std::string push(std::string_view text);
  /// What was held back; the stream has ended.
  std::string flush();
  bool matched() const { return matched_; }
  /// The string that matched.
  const std::string& match() const { return match_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  std::string match_;
  bool matched_ = false;
};

}  // namespace seekline
