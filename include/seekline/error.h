// The one error type that crosses Seekline's boundaries: load, open, request.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace seekline {

/// What kind of thing went wrong; also the exit code of the `seekline` program.
enum class ErrorCode : int {
  kInternal = 1,     ///< a broken promise of our own
  kUsage = 2,        ///< a flag or argument that cannot be used
  kNotFound = 3,     ///< a file, folder or tensor that is not there
  kBadFile = 4,      ///< a file that is there and damaged, or not what it should be
  kUnsupported = 5,  ///< well-formed, but not something this engine can honour
  kLimit = 6,        ///< over a limit: context, cache bytes, batch
  kIo = 7,           ///< the operating system refused to read or write
};

/// Carries one sentence: the thing, what was found, what was expected, what to do.
/// A checker that finds several problems at once reports them together: `problems()` lists them and
/// `what()` holds them one a line below a heading.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& sentence);
  /// `subject` names the thing that was checked; `problems` must not be empty.
  Error(ErrorCode code, const std::string& subject, std::vector<std::string> problems);

  ErrorCode code() const noexcept { return code_; }
  int exit_code() const noexcept { return static_cast<int>(code_); }
  const std::vector<std::string>& problems() const noexcept { return problems_; }

 private:
  ErrorCode code_;
  std::vector<std::string> problems_;
};

}  // namespace seekline
