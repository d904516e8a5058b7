#include "app/chat_input.h"

#include <histedit.h>
#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "seekline/error.h"

namespace seekline {
namespace {

constexpr const char* kBlock = "\"\"\"";
constexpr int kRemembered = 1000;

const char* first_prompt(EditLine*) { return "> "; }
const char* next_prompt(EditLine*) { return ". "; }

}  // namespace

struct ChatInput::Editor {
  EditLine* lines = nullptr;
  History* past = nullptr;

  Editor() {
    std::setlocale(LC_CTYPE, "");
    if (MB_CUR_MAX == 1) std::setlocale(LC_CTYPE, "C.UTF-8");
    lines = el_init("seekline", stdin, stdout, stderr);
    past = history_init();
    if (lines == nullptr || past == nullptr)
      throw Error(ErrorCode::kIo, "this terminal cannot be used for a chat");
    HistEvent event;
    history(past, &event, H_SETSIZE, kRemembered);
    el_set(lines, EL_SIGNAL, 0);  // the program has handlers of its own
    el_set(lines, EL_EDITOR, "emacs");
    el_set(lines, EL_HIST, history, past);
  }
  ~Editor() {
    if (past != nullptr) history_end(past);
    if (lines != nullptr) el_end(lines);
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
};

ChatInput::ChatInput() : is_terminal_(isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) {
  if (is_terminal_) editor_ = std::make_unique<Editor>();
}

ChatInput::~ChatInput() = default;

ChatInput::Read ChatInput::edited_line(std::string& line, bool first) {
  el_set(editor_->lines, EL_PROMPT, first ? first_prompt : next_prompt);
  int bytes = 0;
  errno = 0;
  const char* text = el_gets(editor_->lines, &bytes);
  if (text == nullptr || bytes <= 0) {
    std::fputs("\n", stdout);
    std::fflush(stdout);
    return errno == EINTR ? Read::kInterrupted : Read::kEnd;
  }
  line.assign(text, static_cast<std::size_t>(bytes));
  HistEvent event;
  if (line.find_first_not_of(" \t\r\n") != std::string::npos) history(editor_->past, &event, H_ENTER, text);
  return Read::kLine;
}

ChatInput::Read ChatInput::piped_line(std::string& line) {
  for (;;) {
    if (const std::size_t end = piped_.find('\n'); end != std::string::npos) {
      line = piped_.substr(0, end + 1);
      piped_.erase(0, end + 1);
      return Read::kLine;
    }
    char piece[4096];
    const ssize_t got = ::read(STDIN_FILENO, piece, sizeof piece);
    if (got < 0 && errno == EINTR) return Read::kInterrupted;
    if (got > 0) {
      piped_.append(piece, static_cast<std::size_t>(got));
      continue;
    }
    line = std::exchange(piped_, "");
    return line.empty() ? Read::kEnd : Read::kLine;
  }
}

ChatInput::Read ChatInput::line(std::string& line, bool first) {
  const Read read = editor_ ? edited_line(line, first) : piped_line(line);
  while (read == Read::kLine && !line.empty() && (line.back() == '\n' || line.back() == '\r'))
    line.pop_back();
  return read;
}

ChatInput::Event ChatInput::next(std::string& message) {
  message.clear();
  std::string text;
  bool in_block = false;
  for (bool first = true;; first = false) {
    const Read read = line(text, first);
    if (read == Read::kInterrupted) return Event::kInterrupted;
    if (read == Read::kEnd) return message.empty() ? Event::kEnd : Event::kMessage;
    if (text == kBlock) {
      if (in_block && !message.empty()) message.pop_back();  // the last line's end
      if (in_block) return Event::kMessage;
      in_block = true;
      continue;
    }
    const bool goes_on = !in_block && text.ends_with('\\');
    if (goes_on) text.pop_back();
    message += text;
    if (!in_block && !goes_on) return first && text.starts_with('/') ? Event::kCommand : Event::kMessage;
    message += '\n';
  }
}

}  // namespace seekline
