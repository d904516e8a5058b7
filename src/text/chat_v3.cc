// DeepSeek-V3 (also V2.5) and DeepSeek-V2: turns without reasoning, and without tools in their templates.
#include <string>

#include "text/chat_formats.h"
#include "text/chat_prompt.h"

namespace seekline::chat {
namespace {

// What neither template can say is refused by name rather than left out.
void refuse_unknown(const ChatRequest& request, std::string_view name) {
  if (request.thinking.value_or(false)) refuse(name, "has no thinking mode");
  if (request.effort && request.effort->name.empty()) refuse(name, "takes no effort");
  if (!listed_tools(request).empty()) refuse(name, "has no place for tools in its template");
  for (const ChatMessage& message : request.messages) {
    if (message.role == ChatRole::kReminder) refuse(name, "does not know the role latest_reminder");
    if (message.role == ChatRole::kDeveloper) refuse(name, "does not know the role developer");
    if (message.role == ChatRole::kTool || !message.tool_calls.empty())
      refuse(name, "has no place for tool calls and their results in its template");
  }
}

ReplyStart reply_start(const ChatRequest& request, std::string_view name) {
  const bool continues = !request.messages.empty() && request.messages.back().prefix &&
                         !joined_text(request.messages.back(), name).empty();
  return continues ? ReplyStart::kContentContinued : ReplyStart::kContent;
}

// <｜User｜>…<｜Assistant｜>…<｜end▁of▁sentence｜>, all system texts at the front, an empty line between
// them.
class DeepseekV3 final : public ChatFormat {
 public:
  std::string_view name() const override { return "deepseek-v3"; }
  const ReplySyntax& reply_syntax() const override { return syntax_; }

  ChatPrompt render(const ChatRequest& request) const override {
    refuse_unknown(request, name());
    PromptBuilder prompt;
    prompt.control(kBos);
    bool first = true;
    for (const ChatMessage& message : request.messages) {
      if (message.role != ChatRole::kSystem) continue;
      if (!first) prompt.plain("\n\n");
      first = false;
      prompt.plain(joined_text(message, name()));
    }
    const ChatMessage* last = nullptr;
    for (const ChatMessage& message : request.messages) {
      last = &message;
      if (message.role == ChatRole::kSystem) continue;
      const bool user = message.role == ChatRole::kUser;
      prompt.control(user ? kUser : kAssistant);
      prompt.plain(joined_text(message, name()));
      if (!user && !message.prefix) prompt.control(kEos);
    }
    if (request.reply_wanted && !(last != nullptr && last->prefix)) prompt.control(kAssistant);
    return prompt.take(reply_start(request, name()), /*calls_allowed=*/false);
  }

 private:
  const ReplySyntax syntax_{};
};

// "User: …", "Assistant: …" in plain text.
class DeepseekV2 final : public ChatFormat {
 public:
  std::string_view name() const override { return "deepseek-v2"; }
  const ReplySyntax& reply_syntax() const override { return syntax_; }

  ChatPrompt render(const ChatRequest& request) const override {
    refuse_unknown(request, name());
    PromptBuilder prompt;
    prompt.control(kBos);
    const ChatMessage* last = nullptr;
    for (const ChatMessage& message : request.messages) {
      last = &message;
      const std::string text = joined_text(message, name());
      if (message.role == ChatRole::kAssistant) {
        prompt.plain("Assistant: " + text);
        if (!message.prefix) prompt.control(kEos);
      } else {
        prompt.plain((message.role == ChatRole::kUser ? "User: " : "") + text + "\n\n");
      }
    }
    if (request.reply_wanted && !(last != nullptr && last->prefix)) prompt.plain("Assistant:");
    return prompt.take(reply_start(request, name()), /*calls_allowed=*/false);
  }

 private:
  const ReplySyntax syntax_{ReplySyntax::Kind::kPlain, "", "", "", /*drops_first_blank=*/true};
};

}  // namespace

const ChatFormat& deepseek_v3() {
  static const DeepseekV3 format;
  return format;
}

const ChatFormat& deepseek_v2() {
  static const DeepseekV2 format;
  return format;
}

}  // namespace seekline::chat
