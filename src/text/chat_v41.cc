// DeepSeek-V4.1: a system token, a numeric effort, DSML tags with a blank (" calls", " invoke", "
// parameter").
#include <fmt/format.h>

#include "text/chat_formats.h"
#include "text/chat_turns.h"

namespace seekline::chat {
namespace {

constexpr std::string_view kSystem = "<｜System｜>";
constexpr std::string_view kImage = "<｜deepseek_image｜>";

int effort_number(const std::optional<ChatEffort>& effort) {
  if (!effort) return 75;
  const std::string& name = effort->name;
  if (name.empty()) return effort->number;
  if (name == "minimal" || name == "low") return 50;
  if (name == "ultra" || name == "max") return 100;
  return 75;  // medium, high, xhigh; none beside an explicit wish to think
}

class DeepseekV41 final : public ChatFormat {
 public:
  std::string_view name() const override { return "deepseek-v4.1"; }
  const ReplySyntax& reply_syntax() const override { return tags_; }

  ChatPrompt render(const ChatRequest& request) const override {
    const bool thinking = wants_thinking(request, true);
    std::vector<ChatMessage> messages = tidy_messages(request.messages);
    ChatMessage leading;
    leading.role = ChatRole::kSystem;
    const bool has_leading = !messages.empty() && messages.front().role == ChatRole::kSystem;
    if (has_leading) {
      leading = messages.front();
      messages.erase(messages.begin());
    }

    PromptBuilder prompt;
    TurnWriter writer(prompt, request, style_, thinking);
    leading.tools.insert(leading.tools.begin(), writer.tools().begin(), writer.tools().end());
    const ChatJson schema = shown_schema(request.response_format);
    if (!schema.is_null()) leading.schema = schema;

    prompt.control(kBos);
    if (thinking || has_leading || !leading.tools.empty() || leading.schema) prompt.control(kSystem);
    if (thinking)
      prompt.plain(fmt::format(
          "Reasoning Effort: {} (range 1-100, the higher the value, the more thorough the reasoning)\n\n",
          effort_number(request.effort)));
    writer.system_text(leading);
    writer.turns(messages);
    return prompt.take(reply_start_after(request, thinking), !writer.tools().empty());
  }

 private:
  const ReplySyntax tags_{ReplySyntax::Kind::kDsml, " calls", " invoke", " parameter"};
  const TurnStyle style_{"deepseek-v4.1",
                         &tags_,
                         kImage,
                         kSystem,
                         /*knows_developer=*/false,
                         /*drops_empty_texts=*/false};
};

}  // namespace

const ChatFormat& deepseek_v41() {
  static const DeepseekV41 format;
  return format;
}

}  // namespace seekline::chat
