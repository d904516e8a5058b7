#include "serve/responses_request.h"

#include <fmt/format.h>

#include "serve/api_error.h"
#include "text/chat_json.h"

namespace seekline::serve {
namespace {

std::string joined_texts(const Field& content) {
  if (content.is_text()) return content.text();
  std::string all;
  content.array("a string or an array of parts");
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Field part = content.at(i).object();
    const std::string type = part["type"].text();
    if (type == "refusal") continue;
    if (type != "input_text" && type != "output_text" && type != "text" && type != "reasoning_text" &&
        type != "summary_text")
      part["type"].refuse(fmt::format("is \"{}\"; this server reads text only", type));
    all += part["text"].text();
  }
  return all;
}

// Items of the assistant that follow each other (reasoning, message, calls) are one message.
ChatMessage& assistant_turn(std::vector<ChatMessage>& messages) {
  if (messages.empty() || messages.back().role != ChatRole::kAssistant) {
    messages.emplace_back();
    messages.back().role = ChatRole::kAssistant;
  }
  return messages.back();
}

void add_message(const Field& item, std::vector<ChatMessage>& messages) {
  const std::string role = item["role"].text();
  if (!item["content"].present()) item["content"].refuse("is missing");
  const std::string text = joined_texts(item["content"]);
  if (role == "assistant") {
    ChatMessage& turn = assistant_turn(messages);
    if (turn.content.empty()) turn.content.emplace_back();
    turn.content.front().text += text;
    return;
  }
  ChatMessage message;
  if (role == "system" || role == "developer") {
    message.role = ChatRole::kSystem;
  } else if (role != "user") {
    item["role"].refuse(fmt::format("is \"{}\"; it must be user, assistant, system or developer", role));
  }
  message.content.push_back({ChatPart::Kind::kText, text});
  messages.push_back(std::move(message));
}

void add_item(const Field& item, std::vector<ChatMessage>& messages) {
  const std::string type = item.object()["type"].text_or("message");
  if (type == "message") {
    add_message(item, messages);
  } else if (type == "function_call") {
    assistant_turn(messages).tool_calls.push_back(
        {item["call_id"].text(), item["name"].text(), item["arguments"].text()});
  } else if (type == "function_call_output") {
    ChatMessage message;
    message.role = ChatRole::kTool;
    message.tool_call_id = item["call_id"].text();
    if (!item["output"].present()) item["output"].refuse("is missing");
    message.content.push_back({ChatPart::Kind::kText, joined_texts(item["output"])});
    messages.push_back(std::move(message));
  } else if (type == "reasoning") {
    const Field content = item["content"];
    if (content.present()) assistant_turn(messages).reasoning += joined_texts(content);
  } else {
    item["type"].refuse(fmt::format(
        "is \"{}\"; this server reads message, function_call, function_call_output and reasoning", type));
  }
}

void read_tools(const Field& body, ChatRequest& request) {
  const Field tools = body["tools"];
  if (!tools.present()) return;
  tools.array();
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Field field = tools.at(i).object();
    if (const std::string type = field["type"].text(); type != "function")
      field["type"].refuse(
          fmt::format("is \"{}\"; this server has no tools of its own, only functions", type));
    ChatTool tool;
    tool.name = field["name"].text();
    tool.description = field["description"].text_or("");
    tool.strict = field["strict"].flag(false);
    const Field schema = field["parameters"];
    if (schema.present()) {
      if (schema.object()["type"].text_or("") != "object")
        schema.refuse("must be a JSON schema of type \"object\"");
      tool.parameters = schema.json();
    }
    if (tool.strict)
      tool.parameters =
          strict_schema(schema.present() ? tool.parameters : ChatJson{{"type", "object"}}, schema.path());
    request.tools.push_back(std::move(tool));
  }
}

ChatToolChoice choice_of(const Field& choice) {
  if (!choice.present()) return {};
  if (choice.is_object() && choice["type"].text() == "function")
    return {ChatToolChoice::Kind::kNamed, choice["name"].text()};
  const std::string word = choice.is_text() ? choice.text() : "";
  if (word == "auto") return {};
  if (word == "none") return {ChatToolChoice::Kind::kNone, ""};
  if (word == "required") return {ChatToolChoice::Kind::kRequired, ""};
  choice.refuse("must be auto, none, required or {\"type\": \"function\", \"name\": …}");
}

void read_format(const Field& text, ChatRequest& request) {
  if (!text.present()) return;
  const Field format = text.object()["format"];
  if (!format.present()) return;
  const std::string type = format.object()["type"].text();
  if (type == "text") return;
  if (type == "json_object") {
    request.response_format.kind = ChatResponseFormat::Kind::kJsonObject;
  } else if (type == "json_schema") {
    request.response_format = {ChatResponseFormat::Kind::kJsonSchema, format["schema"].object().json()};
  } else {
    format["type"].refuse("must be text, json_object or json_schema");
  }
}

void read_effort(const Field& reasoning, ChatRequest& request) {
  if (!reasoning.present()) return;
  const Field effort = reasoning.object()["effort"];
  if (!effort.present()) return;
  if (effort.is_text()) {
    request.effort = ChatEffort{effort.text(), 0};
  } else {
    request.effort = ChatEffort{"", static_cast<int>(effort.integer(1, 100))};
  }
}

}  // namespace

ChatRequest responses_chat(const Field& body) {
  ChatRequest request;
  if (const Field instructions = body["instructions"]; instructions.present()) {
    ChatMessage message;
    message.role = ChatRole::kSystem;
    message.content.push_back({ChatPart::Kind::kText, instructions.text()});
    request.messages.push_back(std::move(message));
  }
  const Field input = body["input"];
  if (input.is_text()) {
    ChatMessage message;
    message.content.push_back({ChatPart::Kind::kText, input.text()});
    request.messages.push_back(std::move(message));
  } else {
    input.array("a string or an array of items");
    for (std::size_t i = 0; i < input.size(); ++i) add_item(input.at(i), request.messages);
    if (input.size() == 0) input.refuse("is empty");
  }
  read_tools(body, request);
  request.tool_choice = choice_of(body["tool_choice"]);
  read_effort(body["reasoning"], request);
  read_format(body["text"], request);
  check_chat_request(request);
  return request;
}

}  // namespace seekline::serve
