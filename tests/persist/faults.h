// Processes that write to a store until they are killed, and how often things are done to a store.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "persist/store_fixture.h"

extern char** environ;

namespace seekline::persist_test {

/// `./dev faults` does everything as often as the issue of faults asks; a plain test run does a tenth.
inline int trials(int full) {
  const char* all = std::getenv("SEEKLINE_FAULTS");
  return all != nullptr && *all != '\0' ? full : std::max(1, full / 10);
}

inline constexpr const char* kWorkerFolder = "SEEKLINE_FAULT_FOLDER";
inline constexpr const char* kWorkerSeed = "SEEKLINE_FAULT_SEED";

/// This test program once more, running the test FaultWorker alone, in the folder given.
class Worker {
 public:
  Worker(const fs::path& folder, int seed) {
    ::setenv(kWorkerFolder, folder.c_str(), 1);
    ::setenv(kWorkerSeed, std::to_string(seed).c_str(), 1);
    std::string program = fs::read_symlink("/proc/self/exe").string();
    std::string filter = "--gtest_filter=FaultWorker.*", also = "--gtest_also_run_disabled_tests",
                quiet = "--gtest_brief=1";
    char* arguments[] = {program.data(), filter.data(), also.data(), quiet.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
    ::unsetenv(kWorkerFolder);
  }
  ~Worker() { kill(); }

  void kill() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    wait();
  }
  /// Its exit status, as of waitpid.
  int wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

/// The sequence that a worker with this seed stores, from which it takes longer and longer prefixes.
inline std::vector<std::int32_t> worker_tokens(int seed) {
  return random_tokens(6000, 1000 + static_cast<unsigned>(seed));
}
inline fs::path worker_progress(const fs::path& folder, int seed) {
  return folder / ("progress-" + std::to_string(seed));
}

/// Tokens that the worker is sure to have on disk, so far.
inline std::int64_t stored_by_worker(const fs::path& folder, int seed) {
  std::ifstream file(worker_progress(folder, seed));
  std::int64_t last = 0, tokens = 0;
  for (std::string line; std::getline(file, line) && !file.eof();) {
    tokens = std::strtoll(line.c_str(), nullptr, 10);
    last = std::max(last, tokens);
  }
  return last;
}

}  // namespace seekline::persist_test
