#include "text/chat_prompt.h"

#include <array>
#include <utility>

#include "seekline/error.h"

namespace seekline {

std::string ChatPrompt::text() const {
  std::string all;
  for (const ChatSegment& segment : segments) all += segment.text;
  return all;
}

std::vector<std::pair<std::size_t, std::size_t>> ChatPrompt::control_ranges() const {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  std::size_t at = 0;
  for (const ChatSegment& segment : segments) {
    if (segment.is_control) ranges.emplace_back(at, at + segment.text.size());
    at += segment.text.size();
  }
  return ranges;
}

std::vector<TokenId> encode_prompt(const ChatPrompt& prompt, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const ChatSegment& segment : prompt.segments) {
    if (!segment.is_control) {
      const std::vector<TokenId> plain = tokenizer.encode(segment.text, /*allow_added=*/false);
      ids.insert(ids.end(), plain.begin(), plain.end());
    } else if (const auto id = tokenizer.added_token(segment.text)) {
      ids.push_back(*id);
    } else {
      throw Error(ErrorCode::kUnsupported,
                  "the tokenizer has no token \"" + segment.text +
                      "\", which the chat format needs; choose the format of this model");
    }
  }
  return ids;
}

namespace chat {

void PromptBuilder::plain(std::string_view text) {
  if (text.empty()) return;
  auto& segments = prompt_.segments;
  if (segments.empty() || segments.back().is_control) segments.push_back({"", false});
  segments.back().text += text;
}

void PromptBuilder::control(std::string_view token) {
  prompt_.segments.push_back({std::string(token), true});
}

void PromptBuilder::markup(std::string_view text) {
  while (!text.empty()) {
    std::size_t first = std::string_view::npos;
    std::string_view token;
    for (const std::string_view candidate : {kDsml, kThink, kThinkEnd}) {
      const std::size_t at = text.find(candidate);
      if (at < first) {
        first = at;
        token = candidate;
      }
    }
    plain(text.substr(0, first));
    if (token.empty()) return;
    control(token);
    text.remove_prefix(first + token.size());
  }
}

void PromptBuilder::image(std::string_view token, const std::string& url) {
  control(token);
  prompt_.images.push_back(url);
}

ChatPrompt PromptBuilder::take(ReplyStart reply_start, bool calls_allowed) {
  prompt_.reply_start = reply_start;
  prompt_.calls_allowed = calls_allowed;
  return std::exchange(prompt_, {});
}

bool wants_thinking(const ChatRequest& request, bool otherwise) {
  if (request.thinking) return *request.thinking;
  if (request.effort && request.effort->name == "none") return false;
  return otherwise;
}

std::vector<ChatTool> listed_tools(const ChatRequest& request) {
  switch (request.tool_choice.kind) {
    case ChatToolChoice::Kind::kNone:
      return {};
    case ChatToolChoice::Kind::kNamed:
      for (const ChatTool& tool : request.tools)
        if (tool.name == request.tool_choice.name) return {tool};
      return {};
    case ChatToolChoice::Kind::kAuto:
    case ChatToolChoice::Kind::kRequired:
      break;
  }
  return request.tools;
}

bool demands_call(const ChatRequest& request) {
  return request.tool_choice.kind == ChatToolChoice::Kind::kRequired ||
         request.tool_choice.kind == ChatToolChoice::Kind::kNamed;
}

void refuse_demand_while_thinking(const ChatRequest& request, bool thinking, std::string_view format) {
  if (thinking && demands_call(request))
    refuse(format, "cannot be made to call a tool (tool_choice) while thinking is on");
}

std::string joined_text(const ChatMessage& message, std::string_view format) {
  std::string all;
  for (std::size_t i = 0; i < message.content.size(); ++i) {
    if (message.content[i].kind == ChatPart::Kind::kImage) refuse(format, "does not take images");
    if (i > 0) all += "\n\n";
    all += message.content[i].text;
  }
  return all;
}

void refuse(std::string_view format, const std::string& problem) {
  throw Error(ErrorCode::kUsage, std::string(format) + " " + problem);
}

}  // namespace chat
}  // namespace seekline
