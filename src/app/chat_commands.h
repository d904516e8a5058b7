// The commands of a chat: lines that begin with a slash.
#pragma once

#include <string>

#include "app/chat_conversation.h"

namespace seekline {

/// Runs `line`, and says on stderr what came of it; mistakes too. `turn` is the last answer's. False: /quit.
bool run_chat_command(const std::string& line, Conversation& conversation, const ChatTurn& turn);

}  // namespace seekline
