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
#include "engine/generate.h"
#include "model/network.h"
#include "seekline/session.h"
#include "text/chat.h"

namespace seekline {
namespace {

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

constexpr int kInterruptedExit = 130;

struct RunOptions {
  ModelOptions model;
  std::string folder, prompt, file, system;
  GenerateOptions generate;
  bool raw = false;
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
  if (isatty(STDIN_FILENO) == 0) return read_all(std::cin, "standard input");
  return "What is the capital of France? Answer in one sentence.";
}

// The user's text as a chat turn in the model's own encoding, or as it stands.
std::vector<std::int32_t> prompt_tokens(const RunOptions& o, const Model& model) {
  const Tokenizer& tokenizer = model.required_tokenizer();
  const std::string text = prompt_text(o);
  const ChatFormat* format = o.raw ? nullptr : chat_format_of(model.network().family(), tokenizer);
  std::vector<std::int32_t> ids;
  if (format) {
    ChatRequest request;
    const auto say = [&](ChatRole role, const std::string& words) {
      ChatMessage message;
      message.role = role;
      message.content.push_back({ChatPart::Kind::kText, words});
      request.messages.push_back(std::move(message));
    };
    if (!o.system.empty()) say(ChatRole::kSystem, o.system);
    say(ChatRole::kUser, text);
    request.thinking = false;
    ids = encode_prompt(format->render(request), tokenizer);
  } else {
    ids = tokenizer.encode(text, false);
    const std::int64_t bos = model.network().bos_token_id();
    if (bos >= 0 && model.network().family() != "llama")
      ids.insert(ids.begin(), static_cast<std::int32_t>(bos));
  }
  if (ids.empty()) throw Error(ErrorCode::kUsage, "the prompt is empty, and there is nothing to continue");
  return ids;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double rate(std::size_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

void run(RunOptions& o) {
  if (o.folder.empty()) o.folder = default_model_folder();
  const std::shared_ptr<Model> model = Model::open(o.folder, o.model);
  check_sampling_options(o.generate.sampling);
  const std::vector<std::int32_t> prompt = prompt_tokens(o, *model);
  o.generate.end_tokens = model->end_tokens();
  std::signal(SIGINT, on_interrupt);
  Session session(model);
  const bool show_progress = isatty(STDERR_FILENO) != 0 && prompt.size() > 512;
  const auto start = std::chrono::steady_clock::now();
  const bool read = session.append(prompt, [&](std::int64_t done) {
    if (show_progress)
      fmt::print(stderr, "\rreading the prompt: {} of {} tokens, {:.1f}/s ", with_commas(done),
                 with_commas(static_cast<std::int64_t>(prompt.size())),
                 rate(static_cast<std::size_t>(done), seconds_since(start)));
    return interrupted == 0;
  });
  if (show_progress) fmt::print(stderr, "\r\033[K");
  if (!read) throw CLI::RuntimeError(kInterruptedExit);
  const double read_seconds = seconds_since(start);
  const auto begin = std::chrono::steady_clock::now();
  const Generated out = generate(session, o.generate, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
    return interrupted == 0;
  });
  std::fputs("\n", stdout);
  std::fflush(stdout);
  fmt::print(stderr, "prompt {} tokens ({:.1f}/s), generated {} tokens ({:.1f}/s, {}), cache {} bytes\n",
             prompt.size(), rate(prompt.size(), read_seconds), out.tokens.size(),
             rate(out.tokens.size(), seconds_since(begin)), finish_reason_name(out.reason),
             with_commas(session.cache_bytes()));
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
  add_sampling_options(*command, o->generate);
  add_model_options(*command, o->model);
  command->callback([o] { run(*o); });
}

}  // namespace seekline
