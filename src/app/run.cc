// seekline run: a prompt in, text out.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>

#include <fmt/format.h>

#include "app/commands.h"
#include "app/demo.h"
#include "app/reuse_options.h"
#include "app/session_talk.h"
#include "engine/generate.h"
#include "seekline/session.h"

namespace seekline {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

constexpr int kInterruptedExit = 130;

struct RunOptions {
  ModelOptions model;
  ReuseOptions reuse;
  std::string folder, prompt, file, system, session;
  GenerateOptions generate;
  bool raw = false, demo = false;
};

std::string read_all(std::istream& in, const std::string& name) {
  std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw Error(ErrorCode::kIo, name + " cannot be read");
  return text;
}

std::string prompt_text(const RunOptions& o) {
  if (!o.file.empty()) {
    std::ifstream in(o.file, std::ios::binary);
    if (!in) throw Error(ErrorCode::kNotFound, fmt::format("{} cannot be opened", o.file));
    const std::string text = read_all(in, o.file);
    return o.prompt.empty() ? text : text + "\n\n" + o.prompt;
  }
  if (o.prompt == "-") return read_all(std::cin, "standard input");
  if (!o.prompt.empty()) return o.prompt;
  std::string text;
  if (isatty(STDIN_FILENO) == 0) text = read_all(std::cin, "standard input");
  return text.empty() ? "What is the capital of France? Answer in one sentence." : text;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

bool read_prompt(Session& session, const std::vector<std::int32_t>& prompt) {
  const bool show_progress = isatty(STDERR_FILENO) != 0 && prompt.size() > 512;
  const auto start = std::chrono::steady_clock::now();
  const bool read = session.prompt(prompt, [&](std::int64_t done) {
    if (show_progress)
      fmt::print(stderr, "\rreading the prompt: {} of {} tokens, {:.1f}/s ", with_commas(done),
                 with_commas(static_cast<std::int64_t>(prompt.size())),
                 rate(static_cast<std::size_t>(done), seconds_since(start)));
    return interrupted == 0;
  });
  if (show_progress) fmt::print(stderr, "\r\033[K");
  return read;
}

// `work`: what the prompt alone took. `stored`: there is a store or a file, so that a miss wants its reason.
void print_figures(const Session& session, const std::string& work, double read_seconds, const Generated& out,
                   double seconds, bool stored) {
  const ReuseReport& reuse = session.reuse();
  fmt::print(stderr, "prompt {} tokens ({:.1f}/s; {}), generated {} tokens ({:.1f}/s, {}), cache {} bytes\n",
             with_commas(reuse.prompt_tokens),
             rate(static_cast<std::size_t>(reuse.computed_tokens), read_seconds), work, out.tokens.size(),
             rate(out.tokens.size(), seconds), finish_reason_name(out.reason),
             with_commas(session.cache_bytes()));
  if (const std::string text = reuse_text(reuse); !text.empty() && (stored || reuse.reused_tokens > 0))
    fmt::print(stderr, "{}\n", text);
}

void run(RunOptions& o) {
  if (o.demo)
    return run_demo(o.folder.empty() ? shipped_model_folder().string() : o.folder, o.model, o.reuse);
  if (o.folder.empty()) o.folder = default_model_folder();
  const std::shared_ptr<Model> model = Model::open(o.folder, o.model);
  check_sampling_options(o.generate.sampling);
  SessionTalk talk(model, o.raw, o.session);
  Session session = open_session(model, o.reuse);
  talk.restore(session);
  const std::vector<std::int32_t> prompt = talk.prompt_tokens(session, o.system, prompt_text(o));
  o.generate.end_tokens = model->end_tokens();
  std::signal(SIGINT, on_interrupt);
  const auto start = std::chrono::steady_clock::now();
  if (!read_prompt(session, prompt)) throw CLI::RuntimeError(kInterruptedExit);
  const double read_seconds = seconds_since(start);
  const std::string work = work_text(session.reuse());
  const auto begin = std::chrono::steady_clock::now();
  const Generated out = generate(session, o.generate, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return interrupted == 0;
  });
  std::fputs("\n", stdout);
  std::fflush(stdout);
  print_figures(session, work, read_seconds, out, seconds_since(begin), !o.reuse.store.empty());
  talk.save(session, out.text);
  if (interrupted != 0) throw CLI::RuntimeError(kInterruptedExit);
}

}  // namespace

void add_run_command(CLI::App& app) {
  const auto o = std::make_shared<RunOptions>();
  CLI::App* command =
      app.add_subcommand("run", "answer a prompt: text on stdout, one line of figures on stderr");
  command->add_option("prompt", o->prompt, "the prompt; - reads it from standard input");
  command->add_option("--model", o->folder, "checkpoint folder; without it a small real model, fetched once");
  command->add_option("--file", o->file,
                      "read the prompt from a file; with a prompt, that follows the file's text");
  command->add_option("--system", o->system, "system message");
  command->add_flag("--raw", o->raw, "continue the text as it stands, without the model's chat form");
  command->add_option("--session", o->session,
                      "go on with the session in this file, if it is there, and leave it there again");
  command
      ->add_flag("--demo", o->demo,
                 "questions about a long document, answered by the small trained model that comes with the "
                 "sources; with cache bytes by store, rows read and prefill work beside them")
      ->excludes("prompt", "--file", "--system", "--raw", "--session");
  add_sampling_options(*command, o->generate);
  add_reuse_options(*command, o->reuse, o->model);
  add_model_options(*command, o->model);
  command->callback([o] { run(*o); });
}

}  // namespace seekline
