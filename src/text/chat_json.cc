#include "text/chat_json.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "seekline/error.h"
#include "text/chat_python_json.h"

namespace seekline {
namespace {

template <typename... Args>
[[noreturn]] void bad(fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(ErrorCode::kUsage, fmt::format(sentence, std::forward<Args>(args)...));
}

// A value and the path it was found at.
struct Field {
  const ChatJson* value;
  std::string path;

  bool present() const { return value != nullptr && !value->is_null(); }

  Field operator[](std::string_view key) const {
    const auto found = value->find(key);
    return {found == value->end() ? nullptr : &*found,
            path.empty() ? std::string(key) : path + "." + std::string(key)};
  }

  Field at(std::size_t index) const { return {&(*value)[index], fmt::format("{}[{}]", path, index)}; }

  const Field& object() const {
    if (!present()) bad("{} is missing", path);
    if (!value->is_object()) bad("{} is {}; it must be an object", path, value->type_name());
    return *this;
  }

  const Field& array() const {
    if (!present()) bad("{} is missing", path);
    if (!value->is_array()) bad("{} is {}; it must be an array", path, value->type_name());
    return *this;
  }

  std::string text() const {
    if (!present()) bad("{} is missing", path);
    if (!value->is_string()) bad("{} is {}; it must be a string", path, value->type_name());
    return value->get<std::string>();
  }

  std::string text_or(std::string_view otherwise) const {
    return present() ? text() : std::string(otherwise);
  }

  bool flag() const {
    if (!present()) return false;
    if (!value->is_boolean()) bad("{} is {}; it must be true or false", path, value->type_name());
    return value->get<bool>();
  }
};

ChatRole role_of(const Field& role) {
  const std::string name = role.text();
  if (name == "system") return ChatRole::kSystem;
  if (name == "user") return ChatRole::kUser;
  if (name == "assistant") return ChatRole::kAssistant;
  if (name == "tool") return ChatRole::kTool;
  if (name == "latest_reminder") return ChatRole::kReminder;
  bad("{} is {}; it must be system, user, assistant, tool or latest_reminder", role.path, shown(name));
}

ChatPart part_of(const Field& part) {
  part.object();
  const std::string type = part["type"].text();
  if (type == "text") return {ChatPart::Kind::kText, part["text"].text()};
  if (type != "image_url") bad("{}.type is {}; it must be text or image_url", part.path, shown(type));
  const std::string url = part["image_url"].object()["url"].text();
  const std::string_view scheme = std::string_view(url).substr(0, url.find(':'));
  if (scheme != "http" && scheme != "https" && scheme != "data")
    bad("{}.image_url.url must be a http, https or data URL", part.path);
  return {ChatPart::Kind::kImage, url};
}

// An empty list says what an empty text says.
std::vector<ChatPart> content_of(const Field& content) {
  if (content.value == nullptr) bad("{} is missing", content.path);
  if (content.value->is_string()) return {{ChatPart::Kind::kText, content.value->get<std::string>()}};
  if (!content.value->is_array())
    bad("{} is {}; it must be a string or a list of parts", content.path, content.value->type_name());
  std::vector<ChatPart> parts;
  for (std::size_t i = 0; i < content.value->size(); ++i) parts.push_back(part_of(content.at(i)));
  if (parts.empty()) parts.emplace_back();
  return parts;
}

std::vector<ChatToolCall> calls_of(const Field& calls) {
  if (!calls.present()) return {};
  calls.array();
  if (calls.value->empty()) bad("{} is empty; leave it out or list at least one call", calls.path);
  std::vector<ChatToolCall> list;
  for (std::size_t i = 0; i < calls.value->size(); ++i) {
    const Field call = calls.at(i).object();
    const std::string type = call["type"].text_or("function");
    if (type != "function") bad("{}.type is {}; it must be function", call.path, shown(type));
    const Field function = call["function"].object();
    list.push_back({call["id"].text(), function["name"].text(), function["arguments"].text()});
  }
  return list;
}

ChatMessage message_of(const Field& field) {
  field.object();
  ChatMessage message;
  message.role = role_of(field["role"]);
  const bool may_lack_content = message.role == ChatRole::kAssistant;
  if (!may_lack_content || field["content"].present()) message.content = content_of(field["content"]);
  message.prefix = field["prefix"].flag();
  if (message.role == ChatRole::kAssistant) {
    message.reasoning = field["reasoning_content"].text_or("");
    message.tool_calls = calls_of(field["tool_calls"]);
  }
  if (message.role == ChatRole::kTool) message.tool_call_id = field["tool_call_id"].text();
  return message;
}

ChatTool tool_of(const Field& field) {
  field.object();
  const std::string type = field["type"].text();
  if (type != "function") bad("{}.type is {}; it must be function", field.path, shown(type));
  const Field function = field["function"].object();
  ChatTool tool;
  tool.name = function["name"].text();
  tool.description = function["description"].text_or("");
  tool.strict = function["strict"].flag();
  const Field parameters = function["parameters"];
  if (parameters.present()) {
    const ChatJson* type_of = parameters.object()["type"].value;
    if (type_of == nullptr || *type_of != "object")
      bad("{} must be a JSON schema of type \"object\", and its type is {}", parameters.path,
          type_of == nullptr ? "missing" : shown(*type_of));
    tool.parameters = *parameters.value;
  }
  if (tool.strict)
    tool.parameters =
        strict_schema(parameters.present() ? tool.parameters : ChatJson{{"type", "object"}}, parameters.path);
  return tool;
}

ChatToolChoice tool_choice_of(const Field& choice) {
  if (!choice.present()) return {};
  if (choice.value->is_string()) {
    const std::string word = choice.text();
    if (word == "auto") return {};
    if (word == "none") return {ChatToolChoice::Kind::kNone, ""};
    if (word == "required") return {ChatToolChoice::Kind::kRequired, ""};
  } else if (choice.value->is_object() && choice["type"].present() && *choice["type"].value == "function") {
    return {ChatToolChoice::Kind::kNamed, choice["function"].object()["name"].text()};
  }
  bad("{} is {}; it must be none, auto, required or {{\"type\": \"function\", \"function\": {{\"name\": "
      "…}}}}",
      choice.path, shown(*choice.value));
}

ChatResponseFormat response_format_of(const Field& format) {
  if (!format.present()) return {};
  const std::string type = format.object()["type"].text();
  if (type == "text") return {};
  if (type == "json_object") return {ChatResponseFormat::Kind::kJsonObject, nullptr};
  if (type != "json_schema")
    bad("{}.type is {}; it must be text, json_object or json_schema", format.path, shown(type));
  const Field schema = format["json_schema"].object()["schema"];
  if (!schema.present()) bad("{} is missing", schema.path);
  if (!schema.value->is_object() && !schema.value->is_boolean())
    bad("{} is {}; a JSON schema is an object or a boolean", schema.path, schema.value->type_name());
  return {ChatResponseFormat::Kind::kJsonSchema, *schema.value};
}

std::optional<bool> thinking_of(const Field& thinking) {
  if (!thinking.present()) return std::nullopt;
  if (thinking.value->is_boolean()) return thinking.value->get<bool>();
  const std::string type = thinking.object()["type"].text();
  if (type != "enabled" && type != "disabled")
    bad("{}.type is {}; it must be enabled or disabled", thinking.path, shown(type));
  return type == "enabled";
}

std::optional<ChatEffort> effort_of(const Field& effort) {
  if (!effort.present()) return std::nullopt;
  const ChatJson& value = *effort.value;
  if (value.is_string() && !value.get_ref<const std::string&>().empty())
    return ChatEffort{value.get<std::string>(), 0};
  if (value.is_number_integer() && value >= 1 && value <= 100) return ChatEffort{"", value.get<int>()};
  bad("{} is {}; it must be none, minimal, low, medium, high, xhigh, ultra, max or a whole number from 1 to "
      "100",
      effort.path, shown(value));
}

}  // namespace

ChatRequest chat_request_from_json(const ChatJson& body) {
  if (!body.is_object()) bad("the request is {}; it must be a JSON object", body.type_name());
  if (!is_shallow(body)) bad("the request nests arrays and objects too deeply");
  const Field root{&body, ""};
  ChatRequest request;
  const Field messages = root["messages"].array();
  for (std::size_t i = 0; i < messages.value->size(); ++i)
    request.messages.push_back(message_of(messages.at(i)));
  const Field tools = root["tools"];
  if (tools.present())
    for (std::size_t i = 0; i < tools.array().value->size(); ++i)
      request.tools.push_back(tool_of(tools.at(i)));
  request.tool_choice = tool_choice_of(root["tool_choice"]);
  request.response_format = response_format_of(root["response_format"]);
  request.thinking = thinking_of(root["thinking"]);
  request.effort = effort_of(root["reasoning_effort"]);
  check_chat_request(request);
  return request;
}

}  // namespace seekline
