// Messages typed by a person, or read from a pipe.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace seekline {

/// At a terminal: lines with editing and a history (libedit). Elsewhere: lines as they are. One message is
/// one line, lines that end in a backslash and the one behind them, or everything between two lines that hold
/// only """.
class ChatInput {
 public:
  ChatInput();
  ~ChatInput();
  ChatInput(const ChatInput&) = delete;
  ChatInput& operator=(const ChatInput&) = delete;

  enum class Event { kMessage, kCommand, kEnd, kInterrupted };
  /// kCommand: a line that begins with a slash. kInterrupted: Ctrl-C while nothing was asked; what was typed
  /// is dropped.
  Event next(std::string& message);
  bool is_terminal() const { return is_terminal_; }

 private:
  enum class Read { kLine, kEnd, kInterrupted };
  Read line(std::string& line, bool first);
  Read edited_line(std::string& line, bool first);
  Read piped_line(std::string& line);

  const bool is_terminal_;
  struct Editor;
  std::unique_ptr<Editor> editor_;
  std::string piped_;  // read and not yet taken
};

}  // namespace seekline
