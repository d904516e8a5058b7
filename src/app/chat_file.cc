#include "app/chat_file.h"

#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "app/chat_conversation.h"
#include "seekline/error.h"
#include "text/chat_python_json.h"

namespace seekline {
namespace {

constexpr const char* kFormat = "seekline-chat-1";

const char* role_name(ChatRole role) {
  return role == ChatRole::kSystem ? "system" : role == ChatRole::kUser ? "user" : "assistant";
}

[[noreturn]] void bad(const std::filesystem::path& file, const std::string& why) {
  throw Error(ErrorCode::kBadFile, fmt::format("{} {}", file.string(), why));
}

const std::string& text_at(const ChatJson& message, const char* key, const std::string& place,
                           const std::filesystem::path& file) {
  if (!message.is_object() || !message.contains(key) || !message[key].is_string())
    bad(file, fmt::format("has no text \"{}\" in {}", key, place));
  return message[key].get_ref<const std::string&>();
}

ChatMessage message_of(const ChatJson& json, const std::string& place, const std::filesystem::path& file) {
  const std::string& role = text_at(json, "role", place, file);
  ChatMessage message = text_message(ChatRole::kUser, text_at(json, "content", place, file));
  if (role == "system") {
    message.role = ChatRole::kSystem;
  } else if (role == "assistant") {
    message.role = ChatRole::kAssistant;
    if (json.contains("reasoning_content"))
      message.reasoning = text_at(json, "reasoning_content", place, file);
  } else if (role != "user") {
    bad(file, fmt::format("has the role {} in {}; it must be system, user or assistant", shown(json["role"]),
                          place));
  }
  return message;
}

}  // namespace

void write_chat_file(const std::filesystem::path& file, const ChatFile& chat) {
  ChatJson json{{"format", kFormat}};
  if (chat.thinking) json["thinking"] = *chat.thinking;
  json["messages"] = ChatJson::array();
  for (const ChatMessage& message : chat.messages) {
    ChatJson one{{"role", role_name(message.role)}, {"content", text_of(message)}};
    if (!message.reasoning.empty()) one["reasoning_content"] = message.reasoning;
    json["messages"].push_back(std::move(one));
  }
  std::filesystem::path part = file;
  part += ".part";
  std::ofstream out(part, std::ios::binary | std::ios::trunc);
  // Typed text may hold bytes that are not UTF-8; they are replaced.
  out << json.dump(1, ' ', false, ChatJson::error_handler_t::replace) << "\n";
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(part, file, error);
  if (out && !error) return;
  std::filesystem::remove(part, error);
  throw Error(ErrorCode::kIo, fmt::format("{} cannot be written", file.string()));
}

ChatFile read_chat_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw Error(ErrorCode::kNotFound, fmt::format("{} cannot be opened", file.string()));
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  if (in.bad()) throw Error(ErrorCode::kIo, fmt::format("{} cannot be read", file.string()));
  const std::optional<ChatJson> json = parse_json(text);
  if (!json || !json->is_object() || !json->contains("format") || (*json)["format"] != kFormat)
    bad(file, fmt::format("is no saved chat: it must be JSON with \"format\": \"{}\"", kFormat));
  if (!json->contains("messages") || !(*json)["messages"].is_array()) bad(file, "has no list \"messages\"");
  ChatFile chat;
  if (json->contains("thinking")) {
    if (!(*json)["thinking"].is_boolean()) bad(file, "has a \"thinking\" that is neither true nor false");
    chat.thinking = (*json)["thinking"].get<bool>();
  }
  const ChatJson& messages = (*json)["messages"];
  for (std::size_t i = 0; i < messages.size(); ++i)
    chat.messages.push_back(message_of(messages[i], fmt::format("messages[{}]", i), file));
  return chat;
}

}  // namespace seekline
