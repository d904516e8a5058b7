#include "text/chat_turns.h"

#include <algorithm>
#include <array>
#include <string>

namespace seekline::chat {
namespace {

constexpr std::array<std::string_view, 6> kTasks{"action", "query", "authority",
                                                 "domain", "title", "read_url"};
constexpr std::string_view kUnsupportedImage = "[Unsupported Image]";

bool is_empty(const ChatMessage& message) {
  return message.content.empty() ||
         (message.content.size() == 1 && message.content[0].kind == ChatPart::Kind::kText &&
          message.content[0].text.empty());
}

bool is_user_or_result(const ChatMessage& message) {
  return message.role == ChatRole::kUser || message.role == ChatRole::kTool;
}

// The place of the last message that a reply answers, or -1.
std::ptrdiff_t last_input(const std::vector<ChatMessage>& messages) {
  for (std::ptrdiff_t i = std::ssize(messages) - 1; i >= 0; --i) {
    const ChatMessage& message = messages[static_cast<std::size_t>(i)];
    if (is_input(message) || message.role == ChatRole::kSystem) return i;
  }
  return -1;
}

bool has_tools(const std::vector<ChatMessage>& messages) {
  return std::any_of(messages.begin(), messages.end(), [](const ChatMessage& m) { return !m.tools.empty(); });
}

}  // namespace

std::vector<ChatMessage> tidy_messages(const std::vector<ChatMessage>& messages) {
  std::vector<ChatMessage> tidy;
  for (const ChatMessage& message : messages) {
    const bool says_nothing = is_empty(message) && message.tools.empty() && !message.schema;
    if (message.role != ChatRole::kSystem || !says_nothing) tidy.push_back(message);
  }
  sort_results(tidy);
  return tidy;
}

TurnWriter::TurnWriter(PromptBuilder& prompt, const ChatRequest& request, const TurnStyle& style,
                       bool thinking)
    : prompt_(prompt), request_(request), style_(style), thinking_(thinking), tools_(listed_tools(request)) {
  refuse_demand_while_thinking(request, thinking, style.format);
}

void TurnWriter::parts(const ChatMessage& message) {
  for (std::size_t i = 0; i < message.content.size(); ++i) {
    const ChatPart& part = message.content[i];
    if (i > 0) prompt_.plain("\n\n");
    if (part.kind == ChatPart::Kind::kText) {
      prompt_.plain(part.text);
    } else if (!style_.image_token.empty()) {
      prompt_.image(style_.image_token, part.text);
    } else {
      prompt_.plain(kUnsupportedImage);
    }
  }
}

void TurnWriter::system_text(const ChatMessage& message) {
  parts(message);
  if (!message.tools.empty()) {
    prompt_.plain("\n\n");
    add_tools(prompt_, message.tools, *style_.tags);
  }
  if (message.schema) {
    prompt_.plain("\n\n");
    add_schema(prompt_, *message.schema);
  }
}

void TurnWriter::turns(const std::vector<ChatMessage>& messages) {
  const bool keep_all = !tools_.empty() || has_tools(request_.messages);
  const std::ptrdiff_t last = last_input(messages);
  std::size_t i = 0;
  while (i < messages.size()) {
    const ChatMessage& message = messages[i];
    switch (message.role) {
      case ChatRole::kUser:
      case ChatRole::kTool:
        i = user_turn(messages, i);
        continue;
      case ChatRole::kDeveloper:
        developer_turn(message);
        break;
      case ChatRole::kReminder:
        prompt_.control(kReminder);
        parts(message);
        break;
      case ChatRole::kSystem:
        prompt_.control(style_.system_token);
        system_text(message);
        break;
      case ChatRole::kAssistant: {
        const bool is_last = i + 1 == messages.size();
        const bool answers_task = i > 0 && !messages[i - 1].task.empty();
        if (!answers_task) prompt_.control(kAssistant);
        const bool current = !request_.reply_wanted && static_cast<std::ptrdiff_t>(i) > last;
        const bool keep = keep_all || current || (is_last && message.prefix);
        if (answers_task) {
          parts(message);
          prompt_.control(kEos);
        } else {
          assistant_turn(message, thinking_ && keep, is_last);
        }
        break;
      }
    }
    ++i;
  }
  if (request_.reply_wanted && !continues_message(request_) &&
      (messages.empty() || messages.back().task.empty()))
    reply_header();
}

// Consecutive user messages and tool results are one turn. Returns where the next one begins.
std::size_t TurnWriter::user_turn(const std::vector<ChatMessage>& messages, std::size_t begin) {
  prompt_.control(kUser);
  bool first = true;
  bool text_before = false;  // the previous piece is a user's text, empty ones counted in
  bool text_written = false;
  std::size_t i = begin;
  while (i < messages.size() && is_user_or_result(messages[i])) {
    const ChatMessage& message = messages[i];
    const bool is_result = message.role == ChatRole::kTool;
    const bool joins = style_.drops_empty_texts && !is_result && text_before;
    const bool separate = joins ? text_written && !is_empty(message) : !first;
    if (separate) prompt_.plain("\n\n");
    if (is_result) prompt_.plain("<tool_result>");
    parts(message);
    if (is_result) prompt_.plain("</tool_result>");
    text_written = !is_result && ((joins && text_written) || !is_empty(message));
    text_before = !is_result;
    first = false;
    ++i;
    if (!message.task.empty()) {
      task(message.task);
      break;
    }
  }
  return i;
}

void TurnWriter::developer_turn(const ChatMessage& message) {
  if (!style_.knows_developer) refuse(style_.format, "does not know the role developer");
  prompt_.control(kUser);
  system_text(message);
}

void TurnWriter::assistant_turn(const ChatMessage& message, bool keep_reasoning, bool is_last) {
  const bool continues = is_last && message.prefix;
  if (keep_reasoning) {
    think_token(true);
    prompt_.plain(message.reasoning);
    if (!continues || !is_empty(message)) think_token(false);
  } else {
    think_token(false);
  }
  parts(message);
  if (!message.tool_calls.empty()) add_calls(prompt_, message.tool_calls, *style_.tags);
  if (!continues) prompt_.control(kEos);
}

// Classification tasks of the checkpoints: one token after the user's text; an action follows the reply's
// header.
void TurnWriter::task(std::string_view name) {
  if (std::find(kTasks.begin(), kTasks.end(), name) == kTasks.end())
    refuse(style_.format, "has no task \"" + std::string(name) + "\"");
  if (name == "action") {
    prompt_.control(kAssistant);
    think_token(thinking_);
  }
  prompt_.control("<｜" + std::string(name) + "｜>");
}

void TurnWriter::think_token(bool open) { prompt_.control(open ? kThink : kThinkEnd); }

void TurnWriter::reply_header() {
  prompt_.control(kAssistant);
  think_token(thinking_);
  if (demands_call(request_) && !tools_.empty()) open_calls(prompt_, *style_.tags);
}

}  // namespace seekline::chat
