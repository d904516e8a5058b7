// What V4.1, V4 and V3.2 share: tool calls as DSML tags, tools as JSON lines, the response format.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/chat_prompt.h"

namespace seekline::chat {

/// Adds "\n\n<｜DSML｜BLOCK>…</｜DSML｜BLOCK>". Arguments that are no JSON object (nor one in a JSON string)
/// become one parameter "arguments" with the text itself.
void add_calls(PromptBuilder& prompt, const std::vector<ChatToolCall>& calls, const ReplySyntax& tags);

/// Opens a block for the model to go on with.
void open_calls(PromptBuilder& prompt, const ReplySyntax& tags);

/// {"name": …, "description": …, "parameters": …}
std::string tool_json(const ChatTool& tool);
/// One tool a line, without a last line end.
std::string tool_lines(const std::vector<ChatTool>& tools);

/// The tools text of V4 and V4.1, "## Tools" to its last line end.
void add_tools(PromptBuilder& prompt, const std::vector<ChatTool>& tools, const ReplySyntax& tags);

/// "## Response Format:" and the schema.
void add_schema(PromptBuilder& prompt, const ChatJson& schema);

/// What the prompt shows for a response format: the schema, {"type": "json_object"}, or null for text.
ChatJson shown_schema(const ChatResponseFormat& format);

/// A message that a reply answers: user, tool, developer.
bool is_input(const ChatMessage& message);

/// The results that follow an assistant message with calls, in the order of the calls. Results without a
/// matching id keep their order.
void sort_results(std::vector<ChatMessage>& messages);

/// How the reply starts after the last message.
ReplyStart reply_start_after(const ChatRequest& request, bool thinking);

/// The last message is an assistant text that the reply continues.
bool continues_message(const ChatRequest& request);

}  // namespace seekline::chat
