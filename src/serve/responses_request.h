// Reading the input of OpenAI's Responses API into a chat.
#pragma once

#include "serve/json_field.h"

namespace seekline::serve {

/// instructions, input, tools, tool_choice, reasoning and text.format. The result has passed
/// check_chat_request.
ChatRequest responses_chat(const Field& body);

}  // namespace seekline::serve
