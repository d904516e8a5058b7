// The chat goldens: their cases as requests, and replies in random pieces.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "seekline/error.h"
#include "text/chat.h"
#include "text/chat_json.h"
#include "text/chat_python_json.h"
#include "text/golden_tokenizers.h"

namespace seekline::golden {

inline ChatJson chat_golden(const std::string& name) { return ChatJson::parse(read_file(text_data(name))); }

/// A case as the body of an API request.
inline ChatJson api_body(const ChatJson& item) {
  ChatJson body = ChatJson::object();
  for (const char* key : {"messages", "tools", "tool_choice", "response_format", "thinking"})
    if (item.contains(key)) body[key] = item[key];
  if (item.contains("effort")) body["reasoning_effort"] = item["effort"];
  return body;
}

inline std::string text_or_empty(const ChatJson& item, const char* key) {
  return item.contains(key) && item[key].is_string() ? item[key].get<std::string>() : "";
}

/// Tools as the checkpoints' encoders take them, namespaces included.
inline std::vector<ChatTool> encoder_tools(const ChatJson& list) {
  std::vector<ChatTool> tools;
  for (const ChatJson& entry : list) {
    const ChatJson& function = entry.at("function");
    ChatTool tool{function.at("name").get<std::string>(), text_or_empty(function, "description"),
                  function.contains("parameters") ? function["parameters"] : ChatJson::object(), false};
    if (entry.contains("namespace")) {
      const ChatJson& space = entry["namespace"];
      tool.name = (space.is_string() ? space.get<std::string>() : space["name"].get<std::string>()) +
                  "::" + tool.name;
      const std::string of_space = space.is_object() ? text_or_empty(space, "description") : "";
      if (!of_space.empty()) tool.description = of_space + "\n" + tool.description;
    }
    tools.push_back(tool);
  }
  return tools;
}

inline ChatMessage encoder_message(const ChatJson& item) {
  static const std::vector<std::pair<std::string, ChatRole>> kRoles{
      {"system", ChatRole::kSystem}, {"developer", ChatRole::kDeveloper},
      {"user", ChatRole::kUser},     {"assistant", ChatRole::kAssistant},
      {"tool", ChatRole::kTool},     {"latest_reminder", ChatRole::kReminder}};
  ChatMessage message;
  bool known = false;
  for (const auto& [name, role] : kRoles) {
    if (item.at("role") != name) continue;
    message.role = role;
    known = true;
  }
  if (!known) throw Error(ErrorCode::kUsage, "unknown role");
  const ChatJson content = item.contains("content") ? item["content"] : ChatJson(nullptr);
  if (content.is_string()) message.content.push_back({ChatPart::Kind::kText, content.get<std::string>()});
  if (content.is_array()) {
    for (const ChatJson& part : content) {
      if (part["type"] == "text")
        message.content.push_back({ChatPart::Kind::kText, part["text"].get<std::string>()});
      if (part["type"] == "image_url")
        message.content.push_back({ChatPart::Kind::kImage, part["image_url"]["url"].get<std::string>()});
    }
  }
  message.reasoning = text_or_empty(item, "reasoning_content");
  message.tool_call_id = text_or_empty(item, "tool_call_id");
  message.task = text_or_empty(item, "task");
  message.prefix = item.value("wo_eos", false) || item.value("prefix", false);
  if (item.contains("tools")) message.tools = encoder_tools(item["tools"]);
  if (item.contains("response_format")) message.schema = item["response_format"];
  if (item.contains("tool_calls")) {
    for (const ChatJson& call : item["tool_calls"]) {
      const ChatJson& function = call["function"];
      const ChatJson& arguments = function["arguments"];
      const std::string space = text_or_empty(call, "namespace");
      message.tool_calls.push_back(
          {text_or_empty(call, "id"),
           (space.empty() ? "" : space + "::") + function["name"].get<std::string>(),
           arguments.is_string() ? arguments.get<std::string>() : python_json(arguments)});
    }
  }
  return message;
}

/// A case that only the checkpoints' encoders take: fields that no API passes on, ids left out. A
/// conversation that ends with an assistant message is rendered as it is, without the header of a reply.
inline ChatRequest encoder_request(const ChatJson& item) {
  ChatRequest request;
  for (const ChatJson& message : item["messages"]) request.messages.push_back(encoder_message(message));
  if (item.contains("tools")) request.tools = encoder_tools(item["tools"]);
  if (item.contains("thinking")) request.thinking = item["thinking"].get<bool>();
  if (item.contains("effort")) {
    const ChatJson& effort = item["effort"];
    request.effort =
        effort.is_string() ? ChatEffort{effort.get<std::string>(), 0} : ChatEffort{"", effort.get<int>()};
  }
  request.reply_wanted = request.messages.back().role != ChatRole::kAssistant;
  return request;
}

/// `text` in pieces of random length.
inline std::vector<std::string> random_pieces(const std::string& text, std::mt19937& random) {
  std::vector<std::string> pieces;
  const std::size_t most = std::uniform_int_distribution<std::size_t>(1, 40)(random);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = std::uniform_int_distribution<std::size_t>(1, most)(random);
    pieces.push_back(text.substr(at, bytes));
    at += pieces.back().size();
  }
  return pieces;
}

}  // namespace seekline::golden
