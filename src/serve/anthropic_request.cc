#include "serve/anthropic_request.h"

#include <fmt/format.h>

#include "serve/api_error.h"
#include "text/chat_json.h"

namespace seekline::serve {
namespace {

constexpr std::string_view kTextOrBlocks = "a string or an array of blocks";

// A string, or a list of text blocks.
std::vector<ChatPart> texts_of(const Field& content) {
  if (content.is_text()) return {{ChatPart::Kind::kText, content.text()}};
  std::vector<ChatPart> parts;
  content.array(kTextOrBlocks);
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Field block = content.at(i).object();
    if (block["type"].text() != "text")
      block["type"].refuse(fmt::format("is \"{}\"; only text blocks can be read here", block["type"].text()));
    parts.push_back({ChatPart::Kind::kText, block["text"].text()});
  }
  if (parts.empty()) parts.emplace_back();
  return parts;
}

ChatMessage result_of(const Field& block) {
  ChatMessage message;
  message.role = ChatRole::kTool;
  message.tool_call_id = block["tool_use_id"].text();
  const Field content = block["content"];
  message.content = content.present() ? texts_of(content) : std::vector<ChatPart>{ChatPart{}};
  return message;
}

// Tool results stand first, as tool messages; what else the turn says follows.
void add_user(const Field& content, std::vector<ChatMessage>& messages) {
  ChatMessage user;
  if (content.is_text()) {
    user.content = texts_of(content);
    return messages.push_back(std::move(user));
  }
  content.array(kTextOrBlocks);
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Field block = content.at(i).object();
    const std::string type = block["type"].text();
    if (type == "text") {
      user.content.push_back({ChatPart::Kind::kText, block["text"].text()});
    } else if (type == "tool_result") {
      messages.push_back(result_of(block));
    } else {
      block["type"].refuse(
          fmt::format("is \"{}\"; this server reads text and tool_result in user messages", type));
    }
  }
  if (content.size() == 0) content.refuse("is empty");
  if (!user.content.empty()) messages.push_back(std::move(user));
}

ChatMessage assistant_of(const Field& content) {
  ChatMessage message;
  message.role = ChatRole::kAssistant;
  if (content.is_text()) {
    message.content = texts_of(content);
    return message;
  }
  content.array(kTextOrBlocks);
  std::string text;
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Field block = content.at(i).object();
    const std::string type = block["type"].text();
    if (type == "text") {
      text += block["text"].text();
    } else if (type == "thinking") {
      message.reasoning += block["thinking"].text();
    } else if (type == "tool_use") {
      const Field input = block["input"];
      message.tool_calls.push_back({block["id"].text(), block["name"].text(),
                                    input.present() ? to_text(input.object().json()) : "{}"});
    } else if (type != "redacted_thinking") {
      block["type"].refuse(fmt::format(
          "is \"{}\"; this server reads text, thinking and tool_use in assistant messages", type));
    }
  }
  if (!text.empty() || message.tool_calls.empty()) message.content = {{ChatPart::Kind::kText, text}};
  return message;
}

void read_tools(const Field& body, ChatRequest& request) {
  const Field tools = body["tools"];
  if (!tools.present()) return;
  tools.array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Field field = tools.at(i).object();
    if (const std::string type = field["type"].text_or("custom"); type != "custom")
      field["type"].refuse(fmt::format("is \"{}\"; this server has no tools of its own", type));
    ChatTool tool;
    tool.name = field["name"].text();
    tool.description = field["description"].text_or("");
    const Field schema = field["input_schema"].object();
    if (schema["type"].text_or("") != "object") schema.refuse("must be a JSON schema of type \"object\"");
    tool.parameters = schema.json();
    tool.strict = field["strict"].flag(false);
    if (tool.strict) tool.parameters = strict_schema(tool.parameters, schema.path());
    request.tools.push_back(std::move(tool));
  }
}

ChatToolChoice choice_of(const Field& choice) {
  if (!choice.present()) return {};
  const std::string type = choice.object()["type"].text();
  if (type == "auto") return {};
  if (type == "none") return {ChatToolChoice::Kind::kNone, ""};
  if (type == "any") return {ChatToolChoice::Kind::kRequired, ""};
  if (type == "tool") return {ChatToolChoice::Kind::kNamed, choice["name"].text()};
  choice["type"].refuse(fmt::format("is \"{}\"; it must be auto, any, tool or none", type));
}

// Thinking is off unless asked for, as in Anthropic's API.
void read_thinking(const Field& body, ChatRequest& request) {
  const Field thinking = body["thinking"];
  request.thinking = false;
  if (thinking.present()) {
    const std::string type = thinking.object()["type"].text();
    if (type != "enabled" && type != "disabled" && type != "adaptive")
      thinking["type"].refuse(fmt::format("is \"{}\"; it must be enabled, adaptive or disabled", type));
    request.thinking = type != "disabled";
  }
  const Field effort =
      body["output_config"].present() ? body["output_config"].object()["effort"] : Field(nullptr, "");
  if (effort.present()) request.effort = ChatEffort{effort.text(), 0};
}

void read_format(const Field& body, ChatRequest& request) {
  const Field config = body["output_config"];
  const Field format =
      config.present() && config["format"].present() ? config["format"] : body["output_format"];
  if (!format.present()) return;
  if (format.object()["type"].text() != "json_schema") format["type"].refuse("must be json_schema");
  request.response_format = {ChatResponseFormat::Kind::kJsonSchema, format["schema"].object().json()};
}

}  // namespace

ChatRequest anthropic_chat(const Field& body) {
  body.refuse_members({"mcp_servers", "container", "context_management"});
  ChatRequest request;
  if (const Field system = body["system"]; system.present()) {
    ChatMessage message;
    message.role = ChatRole::kSystem;
    message.content = texts_of(system);
    request.messages.push_back(std::move(message));
  }
  const Field messages = body["messages"].array();
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const Field message = messages.at(i).object();
    const std::string role = message["role"].text();
    if (!message["content"].present()) message["content"].refuse("is missing");
    if (role == "user") {
      add_user(message["content"], request.messages);
    } else if (role == "assistant") {
      request.messages.push_back(assistant_of(message["content"]));
    } else if (role == "system") {
      ChatMessage system;
      system.role = ChatRole::kSystem;
      system.content = texts_of(message["content"]);
      request.messages.push_back(std::move(system));
    } else {
      message["role"].refuse(fmt::format("is \"{}\"; it must be user or assistant", role));
    }
  }
  if (messages.size() == 0) messages.refuse("is empty; at least one message is required");
  ChatMessage& last = request.messages.back();
  last.prefix = last.role == ChatRole::kAssistant && last.tool_calls.empty();
  read_tools(body, request);
  request.tool_choice = choice_of(body["tool_choice"]);
  read_thinking(body, request);
  read_format(body, request);
  check_chat_request(request);
  return request;
}

}  // namespace seekline::serve
