// The turns of V4 and V4.1: users and tool results merged, assistants with their reasoning kept or dropped.
#pragma once

#include <string_view>
#include <vector>

#include "text/chat_dsml.h"

namespace seekline::chat {

struct TurnStyle {
  std::string_view format;  ///< its name, for refusals
  const ReplySyntax* tags;
  std::string_view image_token;   ///< empty: images are written as "[Unsupported Image]"
  std::string_view system_token;  ///< before a later system message; empty: there are none
  bool knows_developer;
  bool drops_empty_texts;  ///< merging users skips empty texts
};

/// Messages without empty system messages, tool results in the order of their calls.
std::vector<ChatMessage> tidy_messages(const std::vector<ChatMessage>& messages);

/// Writes messages and the header of the reply.
class TurnWriter {
 public:
  TurnWriter(PromptBuilder& prompt, const ChatRequest& request, const TurnStyle& style, bool thinking);

  /// System text, without a marker: the parts, then "\n\n" and the tools, "\n\n" and the schema.
  void system_text(const ChatMessage& message);
  /// All turns after the leading system text, and what the reply starts with.
  void turns(const std::vector<ChatMessage>& messages);

  /// The tools that the prompt lists up front.
  const std::vector<ChatTool>& tools() const { return tools_; }

 private:
  void parts(const ChatMessage& message);
  std::size_t user_turn(const std::vector<ChatMessage>& messages, std::size_t begin);
  void developer_turn(const ChatMessage& message);
  void assistant_turn(const ChatMessage& message, bool keep_reasoning, bool is_last);
  void task(std::string_view name);
  void think_token(bool open);
  void reply_header();

  PromptBuilder& prompt_;
  const ChatRequest& request_;
  const TurnStyle& style_;
  const bool thinking_;
  const std::vector<ChatTool> tools_;
};

}  // namespace seekline::chat
