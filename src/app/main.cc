// `seekline`: one program, one file per command.
#include <cstdio>
#include <exception>
#include <string>

#include <fmt/format.h>

#include "app/commands.h"
#include "seekline/error.h"

namespace {

constexpr const char* kFooter =
    "Exit codes: 0 done, 1 our own fault, 2 a flag or argument, 3 not found, 4 a damaged file, 5 not "
    "supported,\n"
    "6 over a limit, 7 the system refused to read or write, 130 interrupted.";

// A first word that is no command; CLI11 would only say that a command is missing.
std::string unknown_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return "";
  std::string known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == argv[1]) return "";
    known += (known.empty() ? "" : ", ") + command->get_name();
  }
  return fmt::format("there is no command '{}' (there are: {})", argv[1], known);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Runs the DeepSeek line of language models on CPUs, from the files as released.", "seekline"};
  app.require_subcommand(1);
  app.footer(kFooter);
  seekline::add_run_command(app);
  seekline::add_chat_command(app);
  seekline::add_serve_command(app);
  seekline::add_logits_command(app);
  seekline::add_tokenize_command(app);
  seekline::add_inspect_command(app);
  seekline::add_plan_command(app);
  seekline::add_synth_command(app);
  seekline::add_bench_command(app);
  seekline::add_cache_command(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::RuntimeError& ended) {
    return ended.get_exit_code();
  } catch (const CLI::ParseError& wrong) {
    const std::string unknown = unknown_command(app, argc, argv);
    fmt::print(stderr, "seekline: {} (see seekline --help)\n", unknown.empty() ? wrong.what() : unknown);
    return static_cast<int>(seekline::ErrorCode::kUsage);
  } catch (const seekline::Error& error) {
    fmt::print(stderr, "seekline: {}\n", error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "seekline: out of memory\n");
    return static_cast<int>(seekline::ErrorCode::kLimit);
  } catch (const std::exception& error) {
    fmt::print(stderr, "seekline: unexpected: {}\n", error.what());
    return static_cast<int>(seekline::ErrorCode::kInternal);
  }
}
