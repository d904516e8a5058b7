// The model of `seekline run` without --model: fetched and converted once by tools/default_model.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include "app/commands.h"

namespace seekline {
namespace {

// Beside the sources it was built from, or where an installation says.
std::filesystem::path tool_path() {
  const char* named = std::getenv("SEEKLINE_TOOLS");
  return std::filesystem::path(named ? named : SEEKLINE_TOOLS_DIR) / "default_model" / "fetch.py";
}

// Runs the tool; its progress goes to our stderr, the folder it names on stdout comes back.
std::string folder_from_tool(const std::filesystem::path& tool) {
  int ends[2];
  if (pipe(ends) != 0) throw Error(ErrorCode::kIo, "a pipe to the default model's tool cannot be made");
  const pid_t child = fork();
  if (child < 0) throw Error(ErrorCode::kIo, "the default model's tool cannot be started");
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execlp("python3", "python3", tool.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  close(ends[1]);
  std::string out;
  char piece[4096];
  for (ssize_t n; (n = read(ends[0], piece, sizeof piece)) > 0;)
    out.append(piece, static_cast<std::size_t>(n));
  close(ends[0]);
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

std::string default_model_folder() {
  const std::filesystem::path tool = tool_path();
  if (!std::filesystem::exists(tool))
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} is not there, so the default model cannot be fetched; give --model, or set "
                            "SEEKLINE_TOOLS to the folder tools/ of the sources",
                            tool.string()));
  return folder_from_tool(tool);
}

}  // namespace seekline
