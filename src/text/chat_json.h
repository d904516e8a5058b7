// From the JSON of a chat request (OpenAI's fields and DeepSeek's) to a ChatRequest.
#pragma once

#include "text/chat.h"

namespace seekline {

/// Reads messages, tools, tool_choice, response_format, thinking and reasoning_effort; the other fields of a
/// request are not the prompt's business. `thinking` is {"type": "enabled" | "disabled"} or a boolean,
/// reasoning_effort a name or 1..100. The result has passed check_chat_request. Throws Error(kUsage) in one
/// sentence that names the field.
ChatRequest chat_request_from_json(const ChatJson& body);

/// A strict tool's schema as the model sees it: in every object all properties are required and no others
/// allowed. Throws Error(kUsage) naming `place` where the schema says otherwise.
ChatJson strict_schema(const ChatJson& schema, const std::string& place);

}  // namespace seekline
