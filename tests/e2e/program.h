// Runs the `seekline` program as a user does: arguments and standard input in, texts and exit code out.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/temp_folder.h"

namespace seekline::e2e {

namespace fs = std::filesystem;

inline fs::path golden_data(const std::string& name) {
  return fs::path(SEEKLINE_SOURCE_DIR) / "tests/golden/data" / name;
}

inline std::string read_bytes(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

inline void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

struct Outcome {
  int code = -1;  ///< exit code; 128 + n where signal n ended it
  std::string out, err;
  double processor_seconds = 0;     ///< of all its threads
  std::int64_t resident_bytes = 0;  ///< at most
};

/// `input` on standard input. With `interrupt_when`, SIGINT as soon as that much text stands on standard
/// output.
inline Outcome run_program(const std::vector<std::string>& arguments, const std::string& input = "",
                           std::size_t interrupt_when = 0) {
  const TempFolder folder;
  write_bytes(folder / "in", input);
  std::vector<std::string> words{SEEKLINE_BINARY};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string in = folder / "in", out = folder / "out", err = folder / "err";
  const pid_t child = fork();
  if (child == 0) {
    dup2(open(in.c_str(), O_RDONLY), STDIN_FILENO);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  if (child < 0) throw std::runtime_error("the program cannot be started");
  int status = 0;
  rusage usage{};
  if (interrupt_when > 0) {
    std::error_code ignored;
    while (wait4(child, &status, WNOHANG, &usage) == 0) {
      if (fs::exists(out, ignored) && fs::file_size(out, ignored) >= interrupt_when) {
        kill(child, SIGINT);
        wait4(child, &status, 0, &usage);
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  } else {
    wait4(child, &status, 0, &usage);
  }
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  Outcome outcome;
  outcome.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_bytes(out);
  outcome.err = read_bytes(err);
  outcome.processor_seconds = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  outcome.resident_bytes = std::int64_t{usage.ru_maxrss} * 1024;
  return outcome;
}

}  // namespace seekline::e2e
