// Reads one JSON object a line, answers one a line (README.md).
#include <cstdio>
#include <iostream>
#include <string>

#include "seekline/error.h"
#include "text/chat.h"
#include "text/chat_json.h"
#include "text/chat_python_json.h"
#include "text/reply.h"

namespace {

using seekline::ChatJson;
using seekline::ReplyStart;

constexpr std::pair<ReplyStart, const char*> kStarts[] = {
    {ReplyStart::kReasoning, "reasoning"}, {ReplyStart::kReasoningContinued, "reasoning_continued"},
    {ReplyStart::kContent, "content"},     {ReplyStart::kContentContinued, "content_continued"},
    {ReplyStart::kCalls, "calls"},
};

ChatJson render(const ChatJson& question) {
  const seekline::ChatFormat& format = seekline::chat_format(question.at("format").get<std::string>());
  const seekline::ChatPrompt prompt = format.render(seekline::chat_request_from_json(question.at("request")));
  ChatJson answer{{"text", prompt.text()}, {"control", ChatJson::array()}, {"images", prompt.images}};
  for (const auto& [begin, end] : prompt.control_ranges()) answer["control"].push_back({begin, end});
  for (const auto& [start, name] : kStarts)
    if (start == prompt.reply_start) answer["start"] = name;
  answer["calls_allowed"] = prompt.calls_allowed;
  return answer;
}

ChatJson parse(const ChatJson& question) {
  seekline::ReplyOptions options;
  for (const auto& [start, name] : kStarts)
    if (question.at("start") == name) options.start = start;
  options.calls_allowed = question.at("calls_allowed");
  options.stream_calls = question.value("stream_calls", true);
  const seekline::ChatFormat& format = seekline::chat_format(question.at("format").get<std::string>());
  seekline::ReplyParser parser(format.reply_syntax(), options);
  for (const ChatJson& piece : question.at("pieces")) parser.feed(piece.get_ref<const std::string&>());
  parser.finish();
  const seekline::Reply& reply = parser.reply();
  ChatJson answer{{"reasoning", reply.reasoning}, {"content", reply.content}, {"calls", ChatJson::array()}};
  for (const seekline::ReplyCall& call : reply.calls)
    answer["calls"].push_back(ChatJson{{"name", call.name}, {"arguments", call.arguments}});
  return answer;
}

ChatJson answer_to(const std::string& line) {
  const auto question = seekline::parse_json(line);
  if (!question) return ChatJson{{"error", "the line is not JSON"}};
  try {
    return question->at("op") == "render" ? render(*question) : parse(*question);
  } catch (const std::exception& error) {
    return ChatJson{{"error", error.what()}};
  }
}

}  // namespace

int main() {
  std::ios::sync_with_stdio(false);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer_to(line).dump() << '\n' << std::flush;
  return 0;
}
