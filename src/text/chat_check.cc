// The rules of a chat request that hold in every format.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include "seekline/error.h"
#include "text/chat.h"
#include "text/chat_python_json.h"

namespace seekline {
namespace {

constexpr std::size_t kMaxToolName = 128;

template <typename... Args>
[[noreturn]] void bad(fmt::format_string<Args...> sentence, Args&&... args) {
  throw Error(ErrorCode::kUsage, fmt::format(sentence, std::forward<Args>(args)...));
}

void check_message(const ChatRequest& request, std::size_t i) {
  const ChatMessage& message = request.messages[i];
  const bool may_show = message.role != ChatRole::kAssistant && message.role != ChatRole::kReminder;
  for (const ChatPart& part : message.content) {
    if (part.kind != ChatPart::Kind::kImage) continue;
    if (!may_show) bad("messages[{}] holds an image; only system, user and tool messages may", i);
    if (part.text.empty()) bad("messages[{}] holds an image without a URL", i);
  }
  const bool assistant = message.role == ChatRole::kAssistant;
  if (assistant && message.content.empty() && message.tool_calls.empty())
    bad("messages[{}] is an assistant message with neither content nor tool_calls", i);
  if (!message.prefix) return;
  if (!assistant || i + 1 != request.messages.size())
    bad("messages[{}] has prefix set; only a last message of the assistant may", i);
  if (!message.tool_calls.empty()) bad("messages[{}] has both prefix and tool_calls", i);
}

// Right after an assistant's calls come their results, one for each, in any order. Returns where the next
// message is.
std::size_t check_results(const ChatRequest& request, std::size_t caller) {
  std::set<std::string> waiting;
  for (const ChatToolCall& call : request.messages[caller].tool_calls)
    if (!waiting.insert(call.id).second)
      bad("messages[{}].tool_calls holds the id {} twice", caller, shown(call.id));
  const std::set<std::string> called = waiting;
  std::size_t i = caller + 1;
  for (; !waiting.empty(); ++i) {
    if (i == request.messages.size() || request.messages[i].role != ChatRole::kTool)
      bad("messages[{}] has tool_calls and must be followed by a tool message for each; the one for {} is "
          "missing",
          caller, shown(*waiting.begin()));
    const std::string& id = request.messages[i].tool_call_id;
    if (called.find(id) == called.end())
      bad("messages[{}] answers the call {}, which messages[{}] does not make", i, shown(id), caller);
    if (waiting.erase(id) == 0) bad("messages[{}] answers the call {} a second time", i, shown(id));
  }
  return i;
}

void check_messages(const ChatRequest& request) {
  if (request.messages.empty()) bad("messages is empty; a chat needs at least one message");
  for (std::size_t i = 0; i < request.messages.size(); ++i) check_message(request, i);
  for (std::size_t i = 0; i < request.messages.size();) {
    if (request.messages[i].role == ChatRole::kTool)
      bad("messages[{}] is a tool message, and no call before it waits for a result", i);
    i = request.messages[i].tool_calls.empty() ? i + 1 : check_results(request, i);
  }
}

void check_tools(const ChatRequest& request) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < request.tools.size(); ++i) {
    const std::string& name = request.tools[i].name;
    if (name.empty()) bad("tools[{}] has an empty name", i);
    if (name.size() > kMaxToolName)
      bad("tools[{}] has a name of {} bytes; at most {} are allowed", i, name.size(), kMaxToolName);
    const bool usable = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return (std::isalnum(c) != 0 && c < 0x80) || c == '_' || c == '-';
    });
    if (!usable) bad("tools[{}] is named {}; a name holds only letters, digits, _ and -", i, shown(name));
    if (!names.insert(name).second) bad("two tools are named {}; names must be unique", shown(name));
  }
  const ChatToolChoice& choice = request.tool_choice;
  if (choice.kind == ChatToolChoice::Kind::kNamed && names.find(choice.name) == names.end())
    bad("tool_choice names the function {}, which is not among the tools", shown(choice.name));
  if (choice.kind == ChatToolChoice::Kind::kRequired && request.tools.empty())
    bad("tool_choice is required, and the request has no tools");
  const bool demands =
      choice.kind == ChatToolChoice::Kind::kNamed || choice.kind == ChatToolChoice::Kind::kRequired;
  if (demands && request.messages.back().prefix)
    bad("tool_choice demands a call, and the last message has prefix set");
}

bool mentions_json(const ChatMessage& message) {
  return std::any_of(message.content.begin(), message.content.end(), [](const ChatPart& part) {
    static constexpr std::string_view kWord = "json";
    return part.kind == ChatPart::Kind::kText &&
           std::search(part.text.begin(), part.text.end(), kWord.begin(), kWord.end(), [](char a, char b) {
             return std::tolower(static_cast<unsigned char>(a)) == b;
           }) != part.text.end();
  });
}

void check_effort(const ChatEffort& effort) {
  static constexpr std::array<std::string_view, 8> kNames{"none", "minimal", "low",   "medium",
                                                          "high", "xhigh",   "ultra", "max"};
  if (effort.name.empty()) {
    if (effort.number < 1 || effort.number > 100)
      bad("the reasoning effort is {}; a number must be from 1 to 100", effort.number);
  } else if (std::find(kNames.begin(), kNames.end(), effort.name) == kNames.end()) {
    bad("the reasoning effort is {}; it must be none, minimal, low, medium, high, xhigh, ultra, max or a "
        "whole "
        "number from 1 to 100",
        shown(effort.name));
  }
}

}  // namespace

void check_chat_request(const ChatRequest& request) {
  check_messages(request);
  check_tools(request);
  if (request.effort) check_effort(*request.effort);
  if (request.response_format.kind == ChatResponseFormat::Kind::kJsonObject &&
      std::none_of(request.messages.begin(), request.messages.end(), mentions_json))
    bad("response_format is json_object, and no message mentions the word json, without which a model may "
        "never end");
}

}  // namespace seekline
