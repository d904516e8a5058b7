// seekline chat: a conversation at the terminal.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "app/chat_commands.h"
#include "app/chat_input.h"
#include "app/commands.h"

namespace seekline {
namespace {

constexpr int kInterruptedExit = 130;
constexpr std::int64_t kTokensWithProgress = 512;

volatile std::sig_atomic_t interrupted = 0;
void on_interrupt(int) { interrupted = 1; }

// Without SA_RESTART, so that a waiting read comes back.
void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  sigaction(SIGINT, &action, nullptr);
}

// The answer as it comes: thoughts dimmed at a terminal, and left out where the output is read by a program.
class AnswerOutput {
 public:
  AnswerOutput()
      : is_terminal_(isatty(STDOUT_FILENO) != 0),
        colours_(is_terminal_ && std::getenv("NO_COLOR") == nullptr) {}

  void progress(std::int64_t done, std::int64_t all) {
    if (all < kTokensWithProgress || isatty(STDERR_FILENO) == 0) return;
    fmt::print(stderr, "\rreading: {} of {} tokens ", with_commas(done), with_commas(all));
    shows_progress_ = true;
  }

  void text(std::string_view text, bool is_reasoning) {
    clear_progress();
    if (is_reasoning && !is_terminal_) return;
    if (is_reasoning != in_reasoning_) {
      if (!is_reasoning) std::fputs(colours_ ? "\033[0m\n\n" : "\n\n", stdout);
      if (is_reasoning && colours_) std::fputs("\033[2m", stdout);
    }
    in_reasoning_ = is_reasoning;
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  void end() {
    clear_progress();
    std::fputs(in_reasoning_ && colours_ ? "\033[0m\n" : "\n", stdout);
    std::fflush(stdout);
    in_reasoning_ = false;
  }

 private:
  void clear_progress() {
    if (shows_progress_) fmt::print(stderr, "\r\033[K");
    shows_progress_ = false;
  }

  const bool is_terminal_, colours_;
  bool in_reasoning_ = false, shows_progress_ = false;
};

void answer(Conversation& conversation, const std::string& message, ChatTurn& turn) {
  AnswerOutput output;
  interrupted = 0;
  try {
    turn = conversation.ask(
        message, [&](std::string_view text, bool is_reasoning) { output.text(text, is_reasoning); },
        [&](std::int64_t done, std::int64_t all) { output.progress(done, all); },
        [] { return interrupted != 0; });
    output.end();
    if (turn.reason == FinishReason::kCancelled) fmt::print(stderr, "(stopped)\n");
    if (turn.reason == FinishReason::kLength) fmt::print(stderr, "(ended by --max-tokens)\n");
    if (turn.reason == FinishReason::kContext)
      fmt::print(stderr, "(the context is full; /reset starts anew)\n");
  } catch (const Error& error) {
    output.end();
    fmt::print(stderr, "seekline: {}\n", error.what());
  }
  interrupted = 0;
}

struct Options {
  ModelOptions model;
  ChatOptions chat;
  std::string folder, load;
  bool think = false, no_think = false;
};

void talk(Options& o) {
  if (o.folder.empty()) o.folder = default_model_folder();
  if (o.think) o.chat.thinking = true;
  if (o.no_think) o.chat.thinking = false;
  Conversation conversation(Model::open(o.folder, o.model), o.chat);
  if (!o.load.empty()) conversation.load(o.load);
  catch_interrupts();
  ChatInput input;
  if (input.is_terminal())
    fmt::print(stderr, "{}. /help lists the commands; Ctrl-C stops an answer, Ctrl-D ends the chat.\n",
               o.folder);
  ChatTurn turn;
  for (std::string message;;) {
    const ChatInput::Event event = input.next(message);
    if (event == ChatInput::Event::kEnd) return;
    if (event == ChatInput::Event::kInterrupted) {
      if (!input.is_terminal()) throw CLI::RuntimeError(kInterruptedExit);
      interrupted = 0;
      continue;
    }
    if (message.find_first_not_of(" \t\n") == std::string::npos) continue;
    if (event == ChatInput::Event::kMessage) {
      answer(conversation, message, turn);
    } else if (!run_chat_command(message, conversation, turn)) {
      return;
    }
  }
}

}  // namespace

void add_chat_command(CLI::App& app) {
  const auto o = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("chat", "a conversation at the terminal; from a pipe, one message a line");
  command->add_option("--model", o->folder, "checkpoint folder; without it a small real model, fetched once");
  command->add_option("--system", o->chat.system, "system message");
  command->add_option("--load", o->load, "go on with a conversation that /save wrote");
  CLI::Option* think =
      command->add_flag("--think", o->think, "let the model think first, where its format can");
  command->add_flag("--no-think", o->no_think, "answer at once")->excludes(think);
  command->add_option("--effort", o->chat.effort, "how hard to think: low, medium, high, max, ...");
  add_sampling_options(*command, o->chat.generate);
  add_reuse_options(*command, o->chat.reuse, o->model);
  add_model_options(*command, o->model);
  command->callback([o] { talk(*o); });
}

}  // namespace seekline
