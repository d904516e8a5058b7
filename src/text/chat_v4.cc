// DeepSeek-V4: efforts as texts, system messages gathered at the front, DSML tags without a blank.
#include "text/chat_formats.h"
#include "text/chat_turns.h"

namespace seekline::chat {
namespace {

constexpr std::string_view kHighEffort =
    "Reasoning Effort: Absolute maximum with no shortcuts permitted.\n"
    "You MUST be very thorough in your thinking and comprehensively decompose the problem to resolve the "
    "root "
    "cause, rigorously stress-testing your logic against all potential paths, edge cases, and adversarial "
    "scenarios.\n"
    "Explicitly write out your entire deliberation process, documenting every intermediate step, considered "
    "alternative, and rejected hypothesis to ensure absolutely no assumption is left unchecked.\n\n";
constexpr std::string_view kMaxEffort =
    "Reasoning Effort: Beyond maximum — exhaustive, relentless, and uncompromising.\n"
    "You MUST reason with the utmost depth and rigor, leaving absolutely nothing to chance: exhaustively "
    "decompose "
    "the problem into its most fundamental components, trace every causal chain to its root, and resolve the "
    "underlying cause rather than any surface symptom.\n"
    "Do not stop reasoning until you have independently verified the solution from multiple angles and are "
    "certain "
    "that no assumption remains unchecked and no error remains undiscovered.\n\n";
constexpr std::string_view kJsonObject =
    "You are a helpful assistant designed to output JSON.\n## Response Format:\n\nReply with JSON object "
    "ONLY.";

class DeepseekV4 final : public ChatFormat {
 public:
  explicit DeepseekV4(bool preview) : preview_(preview) {}

  std::string_view name() const override { return preview_ ? "deepseek-v4-preview" : "deepseek-v4"; }
  const ReplySyntax& reply_syntax() const override { return tags_; }

  ChatPrompt render(const ChatRequest& request) const override {
    if (request.effort && request.effort->name.empty())
      refuse(name(), "takes its effort by name, not as a number");
    const bool thinking = wants_thinking(request, true);
    PromptBuilder prompt;
    TurnWriter writer(prompt, request, style_, thinking);
    std::vector<ChatMessage> messages;
    ChatMessage leading = gather_systems(tidy_messages(request.messages), messages);
    leading.tools.insert(leading.tools.begin(), writer.tools().begin(), writer.tools().end());
    if (request.response_format.kind == ChatResponseFormat::Kind::kJsonSchema)
      leading.schema = request.response_format.schema;

    prompt.control(kBos);
    if (thinking) prompt.plain(effort_text(request.effort));
    writer.system_text(leading);
    if (request.response_format.kind == ChatResponseFormat::Kind::kJsonObject) {
      prompt.plain("\n\n");
      prompt.plain(kJsonObject);
    }
    writer.turns(messages);
    return prompt.take(reply_start_after(request, thinking), !writer.tools().empty());
  }

 private:
  // All system messages as one; the other messages go to `rest`.
  static ChatMessage gather_systems(std::vector<ChatMessage> messages, std::vector<ChatMessage>& rest) {
    ChatMessage leading;
    leading.role = ChatRole::kSystem;
    for (ChatMessage& message : messages) {
      if (message.role != ChatRole::kSystem) {
        rest.push_back(std::move(message));
        continue;
      }
      leading.content.insert(leading.content.end(), message.content.begin(), message.content.end());
      leading.tools.insert(leading.tools.end(), message.tools.begin(), message.tools.end());
      if (message.schema) leading.schema = message.schema;
    }
    return leading;
  }

  std::string_view effort_text(const std::optional<ChatEffort>& effort) const {
    const std::string_view level = effort ? std::string_view(effort->name) : "high";
    if (level == "max" || level == "ultra") return preview_ ? kHighEffort : kMaxEffort;
    if (level == "low" || level == "minimal" || preview_) return "";
    return kHighEffort;
  }

  const bool preview_;
  const ReplySyntax tags_{ReplySyntax::Kind::kDsml, "tool_calls", "invoke", "parameter"};
  const TurnStyle style_{"deepseek-v4",
                         &tags_,
                         /*image_token=*/"",
                         /*system_token=*/"",
                         /*knows_developer=*/true,
                         /*drops_empty_texts=*/true};
};

}  // namespace

const ChatFormat& deepseek_v4() {
  static const DeepseekV4 format(false);
  return format;
}

const ChatFormat& deepseek_v4_preview() {
  static const DeepseekV4 format(true);
  return format;
}

}  // namespace seekline::chat
