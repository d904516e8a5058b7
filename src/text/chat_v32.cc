// DeepSeek-V3.2: no system token, the reply's header right behind each user message, tool results as
// <function_results> that the same assistant goes on from.
#include <algorithm>
#include <string>
#include <utility>

#include "text/chat_dsml.h"
#include "text/chat_formats.h"

namespace seekline::chat {
namespace {

constexpr std::string_view kName = "deepseek-v3.2";

constexpr std::string_view kToolsText = R"(## Tools
You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>
String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types (numbers, booleans, arrays, objects).
If the thinking_mode is enabled, then after function results you should strongly consider outputting a thinking block. Here is an example:
<｜DSML｜function_calls>
...
</｜DSML｜function_calls>
<function_results>
...
</function_results>
<think>...thinking about results</think>
Here are the functions available in JSONSchema format:
<functions>
)";

class Renderer {
 public:
  Renderer(const ChatRequest& request, const ReplySyntax& tags)
      : request_(request),
        tags_(tags),
        messages_(request.messages),
        thinking_(wants_thinking(request, true)),
        tools_(listed_tools(request)) {
    refuse_demand_while_thinking(request, thinking_, kName);
    sort_results(messages_);
    for (std::size_t i = 0; i < messages_.size(); ++i)
      if (messages_[i].role == ChatRole::kUser || messages_[i].role == ChatRole::kDeveloper)
        last_user_ = static_cast<std::ptrdiff_t>(i);
  }

  ChatPrompt render() {
    prompt_.control(kBos);
    add_request_tools();
    for (std::size_t i = 0; i < messages_.size(); ++i) message(i);
    if (request_.reply_wanted && !continues_message(request_)) reply_header();
    return prompt_.take(reply_start_after(request_, thinking_), !tools_.empty());
  }

 private:
  // The request's tools and schema belong to the first message where that is a system message; else they make
  // one.
  void add_request_tools() {
    const ChatJson schema = shown_schema(request_.response_format);
    if (tools_.empty() && schema.is_null()) return;
    if (messages_.empty() || messages_.front().role != ChatRole::kSystem) {
      ChatMessage system;
      system.role = ChatRole::kSystem;
      messages_.insert(messages_.begin(), std::move(system));
      if (last_user_ >= 0) ++last_user_;
    }
    messages_.front().tools.insert(messages_.front().tools.begin(), tools_.begin(), tools_.end());
    if (!schema.is_null()) messages_.front().schema = schema;
  }

  void message(std::size_t i) {
    const ChatMessage& message = messages_[i];
    switch (message.role) {
      case ChatRole::kSystem:
        prompt_.plain(joined_text(message, kName));
        tools_and_schema(message);
        break;
      case ChatRole::kDeveloper:
        if (joined_text(message, kName).empty()) refuse(kName, "needs text in a developer message");
        prompt_.control(kUser);
        tools_and_schema(message);
        prompt_.plain("\n\n# The user's message is: ");
        prompt_.plain(joined_text(message, kName));
        header(i);
        break;
      case ChatRole::kUser:
        prompt_.control(kUser);
        prompt_.plain(joined_text(message, kName));
        header(i);
        break;
      case ChatRole::kAssistant:
        assistant(i);
        break;
      case ChatRole::kTool:
        result(i);
        break;
      case ChatRole::kReminder:
        refuse(kName, "does not know the role latest_reminder");
    }
  }

  void tools_and_schema(const ChatMessage& message) {
    if (!message.tools.empty()) {
      prompt_.plain("\n\n");
      prompt_.markup(kToolsText);
      prompt_.plain(tool_lines(message.tools));
      prompt_.plain("\n</functions>\n");
    }
    if (message.schema) {
      prompt_.plain("\n\n");
      add_schema(prompt_, *message.schema);
    }
  }

  bool is_current(std::size_t i) const { return static_cast<std::ptrdiff_t>(i) >= last_user_; }

  // Behind a user message: the assistant's header. Only the last one opens its thoughts.
  void header(std::size_t i) {
    prompt_.control(kAssistant);
    prompt_.control(thinking_ && is_current(i) ? kThink : kThinkEnd);
  }

  void assistant(std::size_t i) {
    const ChatMessage& message = messages_[i];
    const bool continues = message.prefix && i + 1 == messages_.size();
    const std::string text = joined_text(message, kName);
    if (thinking_ && static_cast<std::ptrdiff_t>(i) > last_user_) {
      if (message.reasoning.empty() && message.tool_calls.empty() && !continues)
        refuse(kName, "needs the reasoning of an assistant message after the last user message (messages[" +
                          std::to_string(i) + "] has none)");
      prompt_.plain(message.reasoning);
      if (!continues || !text.empty()) prompt_.control(kThinkEnd);
    }
    prompt_.plain(text);
    if (!message.tool_calls.empty()) add_calls(prompt_, message.tool_calls, tags_);
    if (!continues) prompt_.control(kEos);
  }

  void result(std::size_t i) {
    std::size_t caller = i;
    while (caller > 0 && messages_[caller].role == ChatRole::kTool) --caller;
    const std::size_t calls = messages_[caller].tool_calls.size();
    const std::size_t order = i - caller;
    if (messages_[caller].role != ChatRole::kAssistant || order > calls)
      refuse(kName, "finds a tool result without a call (messages[" + std::to_string(i) + "])");
    if (order == 1) prompt_.plain("\n\n<function_results>");
    prompt_.plain("\n<result>" + joined_text(messages_[i], kName) + "</result>");
    if (order < calls) return;
    prompt_.plain("\n</function_results>\n\n");
    prompt_.control(thinking_ && is_current(i) ? kThink : kThinkEnd);
  }

  // User messages and results already end in the header of the reply; after anything else it is due.
  void reply_header() {
    if (messages_.empty() || !is_input(messages_.back())) {
      prompt_.control(kAssistant);
      prompt_.control(thinking_ ? kThink : kThinkEnd);
    }
    if (demands_call(request_) && !tools_.empty()) open_calls(prompt_, tags_);
  }

  const ChatRequest& request_;
  const ReplySyntax& tags_;
  std::vector<ChatMessage> messages_;
  const bool thinking_;
  const std::vector<ChatTool> tools_;
  std::ptrdiff_t last_user_ = -1;
  PromptBuilder prompt_;
};

class DeepseekV32 final : public ChatFormat {
 public:
  std::string_view name() const override { return kName; }
  const ReplySyntax& reply_syntax() const override { return tags_; }
  ChatPrompt render(const ChatRequest& request) const override {
    if (request.effort && request.effort->name.empty())
      refuse(kName, "takes its effort by name, not as a number");
    return Renderer(request, tags_).render();
  }

 private:
  const ReplySyntax tags_{ReplySyntax::Kind::kDsml, "function_calls", "invoke", "parameter"};
};

}  // namespace

const ChatFormat& deepseek_v32() {
  static const DeepseekV32 format;
  return format;
}

}  // namespace seekline::chat
