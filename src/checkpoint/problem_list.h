// What is wrong with files from outside, collected so that it can be reported at once.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "seekline/error.h"

namespace seekline {

/// Keeps the first `kListed` sentences and counts the rest. The code of the first problem becomes the code of
/// the error.
class ProblemList {
 public:
  static constexpr std::size_t kListed = 50;

  void add(ErrorCode code, std::string sentence);
  void add(std::string sentence) { add(ErrorCode::kBadFile, std::move(sentence)); }
  void append(ProblemList other);

  bool empty() const { return count_ == 0; }
  std::size_t count() const { return count_; }
  const std::vector<std::string>& listed() const { return listed_; }

  /// Throws Error(code of the first problem) if there is any; `subject` heads the message.
  void throw_if_any(const std::string& subject) const;

 private:
  ErrorCode code_ = ErrorCode::kBadFile;
  std::size_t count_ = 0;
  std::vector<std::string> listed_;
};

}  // namespace seekline
