// The model of `seekline run` without --model: fetched and converted once by tools/default_model.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
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

// Calls `take` with every piece until nobody writes any more.
template <typename Take>
void read_all(int end, Take&& take) {
  char piece[4096];
  for (ssize_t n; (n = read(end, piece, sizeof piece)) > 0 || (n < 0 && errno == EINTR);)
    if (n > 0) take(std::string_view(piece, static_cast<std::size_t>(n)));
}

void read_lines(int end, const LineSink& progress) {
  std::string line;
  read_all(end, [&](std::string_view piece) {
    line += piece;
    for (std::size_t at; (at = line.find_first_of("\n\r")) != std::string::npos; line.erase(0, at + 1))
      if (at > 0) progress(line.substr(0, at));
  });
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
  if (progress) read_lines(err_pipe.ends[0], progress);
  std::string out;  // one path, for which the pipe has room until the other is read
  read_all(out_pipe.ends[0], [&](std::string_view piece) { out += piece; });
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
    throw Error(ErrorCode::kNotFound,
                "python3 is needed to fetch the default model; install it, or give --model");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Error(ErrorCode::kIo,
                "the default model could not be fetched (see above); give --model to use another");
  while (!out.empty() && (out.back() == '\n' || out.back() == '\r')) out.pop_back();
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
