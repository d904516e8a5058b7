// The model of `seekline run` without --model: fetched and converted once by tools/default_model.
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include <fmt/format.h>

#include "app/commands.h"

namespace seekline {
namespace {

// Beside the sources it was built from, or where an installation says.
std::filesystem::path tool_path() {
  const char* named = std::getenv("SEEKLINE_TOOLS");
  return std::filesystem::path(named ? named : SEEKLINE_TOOLS_DIR) / "default_model" / "fetch.py";
}

// A pipe to read what a child writes.
struct Pipe {
  int ends[2] = {-1, -1};
  Pipe() {
    if (pipe(ends) != 0) throw Error(ErrorCode::kIo, "a pipe to the default model's tool cannot be made");
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_end(int which) {
    if (ends[which] >= 0) close(std::exchange(ends[which], -1));
  }
};

void without_line_end(std::string& text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
}

// Reads both pipes to their ends: `out` whole, the other line by line.
void read_both(int out_end, int err_end, std::string& out, const LineSink& progress) {
  pollfd ends[2] = {{out_end, POLLIN, 0}, {err_end, POLLIN, 0}};
  std::string line;
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (poll(ends, 2, -1) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    for (pollfd& end : ends) {
      if (end.fd < 0 || end.revents == 0) continue;
      char piece[4096];
      const ssize_t n = read(end.fd, piece, sizeof piece);
      if (n <= 0) {
        end.fd = -1;  // poll passes over it
        continue;
      }
      (&end == &ends[0] ? out : line).append(piece, static_cast<std::size_t>(n));
    }
    for (std::size_t at; (at = line.find_first_of("\n\r")) != std::string::npos; line.erase(0, at + 1))
      if (at > 0) progress(line.substr(0, at));
  }
  if (!line.empty()) progress(line);
}

// Runs the tool; the folder it names on stdout comes back. Its progress goes to our stderr without a sink.
std::string folder_from_tool(const std::filesystem::path& tool, const LineSink& progress) {
  Pipe out_pipe, err_pipe;
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorCode::kIo, "the default model's tool cannot be started");
  if (child == 0) {
    dup2(out_pipe.ends[1], STDOUT_FILENO);
    if (progress) dup2(err_pipe.ends[1], STDERR_FILENO);
    for (const Pipe* pipe : {&out_pipe, &err_pipe})
      for (const int end : pipe->ends) close(end);
    execlp("python3", "python3", tool.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  out_pipe.close_end(1);
  err_pipe.close_end(1);
  std::string out;
  read_both(out_pipe.ends[0], err_pipe.ends[0], out, progress);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Error(ErrorCode::kNotFound,
                "python3 is needed to fetch the default model; install it, or give --model");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(ErrorCode::kIo,
                "the default model could not be fetched (see above); give --model to use another");
  without_line_end(out);
  return out;
}

}  // namespace

std::string default_model_folder(const LineSink& progress) {
  const std::filesystem::path tool = tool_path();
  if (!std::filesystem::exists(tool))
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is not there, so the default model cannot be fetched; give --model, or set "
                            "SEEKLINE_TOOLS to the folder tools/ of the sources",
                            tool.string()));
  return folder_from_tool(tool, progress);
}

}  // namespace seekline
