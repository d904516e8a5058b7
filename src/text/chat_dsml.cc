#include "text/chat_dsml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "text/chat_python_json.h"

namespace seekline::chat {
namespace {

constexpr std::string_view kToolsText = R"(## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<｜DSML｜{block}>" block like the following:

<｜DSML｜{block}>
<｜DSML｜{invoke} name="$TOOL_NAME">
<｜DSML｜{parameter} name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜{parameter}>
...
</｜DSML｜{invoke}>
<｜DSML｜{invoke} name="$TOOL_NAME2">
...
</｜DSML｜{invoke}>
</｜DSML｜{block}>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

)";

constexpr std::string_view kAfterTools =
    "\n\nYou MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls.\n";

ChatJson arguments_object(const std::string& arguments) {
  std::optional<ChatJson> value = parse_json(arguments);
  // Some clients encode twice; they mean the object.
  if (value && value->is_string()) value = parse_json(value->get_ref<const std::string&>());
  if (value && value->is_object()) return *value;
  return ChatJson{{"arguments", arguments}};
}

}  // namespace

void add_calls(PromptBuilder& prompt, const std::vector<ChatToolCall>& calls, const ReplySyntax& tags) {
  open_calls(prompt, tags);
  for (const ChatToolCall& call : calls) {
    prompt.markup("<｜DSML｜" + tags.invoke + " name=\"");
    prompt.plain(call.name);
    prompt.plain("\">\n");
    bool first = true;
    const ChatJson arguments = arguments_object(call.arguments);
    for (const auto& [key, value] : arguments.items()) {
      if (!first) prompt.plain("\n");
      first = false;
      prompt.markup("<｜DSML｜" + tags.parameter + " name=\"");
      prompt.plain(key);
      prompt.plain(value.is_string() ? "\" string=\"true\">" : "\" string=\"false\">");
      prompt.plain(value.is_string() ? value.get<std::string>() : python_json(value));
      prompt.markup("</｜DSML｜" + tags.parameter + ">");
    }
    prompt.markup("\n</｜DSML｜" + tags.invoke + ">\n");
  }
  prompt.markup("</｜DSML｜" + tags.block + ">");
}

void open_calls(PromptBuilder& prompt, const ReplySyntax& tags) {
  prompt.markup("\n\n<｜DSML｜" + tags.block + ">\n");
}

std::string tool_json(const ChatTool& tool) {
  return python_json(
      ChatJson{{"name", tool.name}, {"description", tool.description}, {"parameters", tool.parameters}});
}

std::string tool_lines(const std::vector<ChatTool>& tools) {
  std::string lines;
  for (const ChatTool& tool : tools) {
    if (!lines.empty()) lines += '\n';
    lines += tool_json(tool);
  }
  return lines;
}

void add_tools(PromptBuilder& prompt, const std::vector<ChatTool>& tools, const ReplySyntax& tags) {
  prompt.markup(fmt::format(kToolsText, fmt::arg("block", tags.block), fmt::arg("invoke", tags.invoke),
                            fmt::arg("parameter", tags.parameter)));
  prompt.plain(tool_lines(tools));
  prompt.plain(kAfterTools);
}

void add_schema(PromptBuilder& prompt, const ChatJson& schema) {
  prompt.plain("## Response Format:\n\nYou MUST strictly adhere to the following schema to reply:\n");
  prompt.plain(python_json(schema));
}

ChatJson shown_schema(const ChatResponseFormat& format) {
  switch (format.kind) {
    case ChatResponseFormat::Kind::kText:
      break;
    case ChatResponseFormat::Kind::kJsonObject:
      return ChatJson{{"type", "json_object"}};
    case ChatResponseFormat::Kind::kJsonSchema:
      return format.schema;
  }
  return nullptr;
}

bool is_input(const ChatMessage& message) {
  return message.role == ChatRole::kUser || message.role == ChatRole::kTool ||
         message.role == ChatRole::kDeveloper;
}

void sort_results(std::vector<ChatMessage>& messages) {
  for (std::size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].tool_calls.empty()) continue;
    std::map<std::string, std::size_t> place;
    for (std::size_t c = 0; c < messages[i].tool_calls.size(); ++c)
      place.emplace(messages[i].tool_calls[c].id, c);
    const auto begin = messages.begin() + static_cast<std::ptrdiff_t>(i) + 1;
    const auto end =
        std::find_if(begin, messages.end(), [](const ChatMessage& m) { return m.role != ChatRole::kTool; });
    const bool all_known = std::all_of(
        begin, end, [&](const ChatMessage& m) { return place.find(m.tool_call_id) != place.end(); });
    if (!all_known) continue;
    std::stable_sort(begin, end, [&](const ChatMessage& a, const ChatMessage& b) {
      return place.at(a.tool_call_id) < place.at(b.tool_call_id);
    });
  }
}

bool continues_message(const ChatRequest& request) {
  return !request.messages.empty() && request.messages.back().role == ChatRole::kAssistant &&
         request.messages.back().prefix;
}

ReplyStart reply_start_after(const ChatRequest& request, bool thinking) {
  if (continues_message(request)) {
    const ChatMessage& last = request.messages.back();
    const bool has_text = std::any_of(last.content.begin(), last.content.end(),
                                      [](const ChatPart& part) { return !part.text.empty(); });
    if (has_text) return ReplyStart::kContentContinued;
    if (!thinking) return ReplyStart::kContent;
    return last.reasoning.empty() ? ReplyStart::kReasoning : ReplyStart::kReasoningContinued;
  }
  if (demands_call(request)) return ReplyStart::kCalls;
  return thinking ? ReplyStart::kReasoning : ReplyStart::kContent;
}

}  // namespace seekline::chat
