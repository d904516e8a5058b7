// Reading Anthropic's messages into a chat.
#pragma once

#include "serve/json_field.h"

namespace seekline::serve {

/// system, messages, tools, tool_choice, thinking and output format. The result has passed
/// check_chat_request.
ChatRequest anthropic_chat(const Field& body);

}  // namespace seekline::serve
