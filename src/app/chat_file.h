// A conversation as a file: {"format": "seekline-chat-1", "thinking": bool?, "messages": [{"role", "content",
// "reasoning_content"?}]}, so that the messages can be sent to any chat API as they are.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "text/chat.h"

namespace seekline {

struct ChatFile {
  std::vector<ChatMessage> messages;
  std::optional<bool> thinking;
};

/// Replaces the file as a whole or not at all. Error(kIo).
void write_chat_file(const std::filesystem::path& file, const ChatFile& chat);
/// Error(kNotFound | kIo | kBadFile).
ChatFile read_chat_file(const std::filesystem::path& file);

}  // namespace seekline
