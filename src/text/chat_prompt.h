// Building prompts segment by segment, and what several encodings share; internal to the chat formats.
#pragma once

#include <string>
#include <string_view>

#include "text/chat.h"

namespace seekline::chat {

inline constexpr std::string_view kBos = "<｜begin▁of▁sentence｜>";
inline constexpr std::string_view kEos = "<｜end▁of▁sentence｜>";
inline constexpr std::string_view kUser = "<｜User｜>";
inline constexpr std::string_view kAssistant = "<｜Assistant｜>";
inline constexpr std::string_view kReminder = "<｜latest_reminder｜>";
inline constexpr std::string_view kThink = "<think>";
inline constexpr std::string_view kThinkEnd = "</think>";
inline constexpr std::string_view kDsml = "｜DSML｜";

class PromptBuilder {
 public:
  void plain(std::string_view text);
  void control(std::string_view token);
  /// Text of ours in which the spellings of ｜DSML｜, <think> and </think> are meant as control tokens.
  void markup(std::string_view text);
  /// An image's place; its URL joins the list.
  void image(std::string_view token, const std::string& url);

  ChatPrompt take(ReplyStart reply_start, bool calls_allowed);

 private:
  ChatPrompt prompt_;
};

/// Thinking is asked for, or not; where the request is silent, `otherwise`.
bool wants_thinking(const ChatRequest& request, bool otherwise);

/// The tools that the prompt lists: all, none (choice none), or the named one.
std::vector<ChatTool> listed_tools(const ChatRequest& request);
/// The choice demands a call, so the prompt opens the block.
bool demands_call(const ChatRequest& request);

/// A model that is to think cannot be made to call: its reply starts with its thoughts.
void refuse_demand_while_thinking(const ChatRequest& request, bool thinking, std::string_view format);

/// Text parts joined by an empty line. Images are refused in the name of `format`.
std::string joined_text(const ChatMessage& message, std::string_view format);

/// Error(kUsage) "<format> <problem>".
[[noreturn]] void refuse(std::string_view format, const std::string& problem);

}  // namespace seekline::chat
