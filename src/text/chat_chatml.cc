// ChatML as SmolLM2's template writes it. That template has no tools; where a request brings some they are
// listed in the system message and called as JSON between <tool_call> tags, which is how ChatML models with
// tools do it.
#include <string>

#include "text/chat_dsml.h"
#include "text/chat_formats.h"
#include "text/chat_python_json.h"
#include "text/reply_calls.h"

namespace seekline::chat {
namespace {

constexpr std::string_view kName = "chatml";
constexpr std::string_view kBegin = "<|im_start|>";
constexpr std::string_view kEnd = "<|im_end|>";
constexpr std::string_view kDefaultSystem =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face";

std::string tools_text(const std::vector<ChatTool>& tools) {
  return "\n\nYou can call these functions. Each line between the <tools> tags describes one:\n<tools>\n" +
         tool_lines(tools) +
         "\n</tools>\nTo call one, write its name and its arguments as a JSON object between <tool_call> "
         "tags, and "
         "nothing after them:\n<tool_call>\n{\"name\": \"<name>\", \"arguments\": "
         "{<arguments>}}\n</tool_call>";
}

std::string call_text(const ChatToolCall& call) {
  const auto arguments = parse_json(call.arguments);
  return std::string(reply::kJsonCallOpen) + "\n" +
         python_json(ChatJson{
             {"name", call.name},
             {"arguments", arguments && arguments->is_object() ? *arguments : ChatJson(call.arguments)}}) +
         "\n" + std::string(reply::kJsonCallClose);
}

class ChatMl final : public ChatFormat {
 public:
  std::string_view name() const override { return kName; }
  const ReplySyntax& reply_syntax() const override { return syntax_; }

  ChatPrompt render(const ChatRequest& request) const override {
    if (request.thinking.value_or(false)) refuse(kName, "has no thinking mode");
    if (request.effort && request.effort->name.empty()) refuse(kName, "takes no effort");
    std::vector<ChatMessage> messages = request.messages;
    sort_results(messages);
    const std::vector<ChatTool> tools = listed_tools(request);
    const std::string after_system = tools.empty() ? "" : tools_text(tools);

    PromptBuilder prompt;
    const bool has_system = !messages.empty() && messages.front().role == ChatRole::kSystem;
    if (!has_system) turn(prompt, "system", std::string(kDefaultSystem) + after_system, true);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const std::string text = joined_text(messages[i], kName);
      switch (messages[i].role) {
        case ChatRole::kSystem:
          turn(prompt, "system", i == 0 ? text + after_system : text, true);
          break;
        case ChatRole::kUser:
          turn(prompt, "user", text, true);
          break;
        case ChatRole::kAssistant:
          turn(prompt, "assistant", text + calls_text(messages[i], text), !messages[i].prefix);
          break;
        case ChatRole::kTool:
          i = results(prompt, messages, i);
          break;
        case ChatRole::kDeveloper:
          refuse(kName, "does not know the role developer");
        case ChatRole::kReminder:
          refuse(kName, "does not know the role latest_reminder");
      }
    }
    if (request.reply_wanted && !continues_message(request)) {
      prompt.control(kBegin);
      prompt.plain("assistant\n");
      if (demands_call(request) && !tools.empty()) prompt.plain(std::string(reply::kJsonCallOpen) + "\n");
    }
    return prompt.take(reply_start_after(request, /*thinking=*/false), !tools.empty());
  }

 private:
  static void turn(PromptBuilder& prompt, std::string_view role, const std::string& text, bool ends) {
    prompt.control(kBegin);
    prompt.plain(std::string(role) + "\n" + text);
    if (!ends) return;
    prompt.control(kEnd);
    prompt.plain("\n");
  }

  static std::string calls_text(const ChatMessage& message, const std::string& before) {
    std::string text;
    for (const ChatToolCall& call : message.tool_calls) {
      if (!before.empty() || !text.empty()) text += '\n';
      text += call_text(call);
    }
    return text;
  }

  // Consecutive results are one user turn. Returns the last one's place.
  static std::size_t results(PromptBuilder& prompt, const std::vector<ChatMessage>& messages, std::size_t i) {
    std::string text;
    while (true) {
      text += "<tool_response>\n" + joined_text(messages[i], kName) + "\n</tool_response>";
      if (i + 1 == messages.size() || messages[i + 1].role != ChatRole::kTool) break;
      text += '\n';
      ++i;
    }
    turn(prompt, "user", text, true);
    return i;
  }

  const ReplySyntax syntax_{ReplySyntax::Kind::kCallJson, "", "", ""};
};

}  // namespace

const ChatFormat& chatml() {
  static const ChatMl format;
  return format;
}

}  // namespace seekline::chat
