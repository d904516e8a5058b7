#include "app/chat_commands.h"

#include <algorithm>
#include <cstdio>
#include <map>

#include <fmt/format.h>

#include "app/commands.h"

namespace seekline {
namespace {

constexpr const char* kHelp =
    R"(/stats          tokens, cache bytes by store, speed and reuse of the last answer
/save FILE      write the conversation (JSON)
/load FILE      go on with a conversation that was saved
/fork [NAME]    keep the conversation as it stands, and go on
/back [NAME]    return to a conversation that was kept; without a name: list them
/think on|off   let the model think before it answers
/reset          begin anew
/quit           end the chat (Ctrl-D)
A message goes on in the next line after a backslash; """ on a line of its own begins and ends a longer one.
Ctrl-C stops an answer; what was said of it stays in the conversation.
)";

const char* kind_name(StoreKind kind) {
  switch (kind) {
    case StoreKind::kMain:
      return "main rows";
    case StoreKind::kIndexKey:
      return "index keys";
    case StoreKind::kWindow:
      return "windows";
    case StoreKind::kTail:
      return "tails";
  }
  return "";
}

double rate(std::int64_t tokens, double seconds) {
  return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
}

// Bytes of finished rows, as the plan has them.
std::string store_bytes(const CachePlan& plan, std::int64_t tokens) {
  std::map<StoreKind, std::int64_t> bytes;
  for (const Store& store : plan.stores) bytes[store.kind] += store.rows_at(tokens) * store.row.bytes();
  std::string text;
  for (const auto& [kind, count] : bytes)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", kind_name(kind),
                        human_bytes(static_cast<double>(count)));
  return text;
}

void print_stats(const Conversation& conversation, const ChatTurn& turn) {
  const Session& session = conversation.session();
  const Model& model = *session.model();
  fmt::print(stderr, "conversation: {} messages, {} of {} tokens\n", conversation.messages().size(),
             with_commas(session.length()), with_commas(model.context()));
  fmt::print(stderr, "cache: {} in all; {}\n", human_bytes(static_cast<double>(session.cache_bytes())),
             store_bytes(model.plan(), session.length()));
  const ReuseReport& r = turn.reuse;
  if (r.prompt_tokens == 0) return;
  fmt::print(
      stderr,
      "last prompt: {} tokens, {} reused ({}), {} of them replayed, {} computed in {:.2f} s ({:.1f}/s)\n",
      with_commas(r.prompt_tokens), with_commas(r.reused_tokens), r.from, with_commas(r.replayed_tokens),
      with_commas(r.computed_tokens), turn.prompt_seconds, rate(r.computed_tokens, turn.prompt_seconds));
  if (!r.windows.empty()) fmt::print(stderr, "windows: {}\n", r.windows);
  if (!r.why_not_more.empty()) fmt::print(stderr, "not more reused: {}\n", r.why_not_more);
  fmt::print(stderr, "last answer: {} tokens in {:.2f} s ({:.1f}/s), {}\n", with_commas(turn.answer_tokens),
             turn.answer_seconds, rate(turn.answer_tokens, turn.answer_seconds),
             finish_reason_name(turn.reason));
}

void fork(const std::string& given, Conversation& conversation) {
  std::string name = given;
  for (std::size_t n = conversation.forks().size() + 1; name.empty(); ++n) {
    const std::vector<std::string> taken = conversation.forks();
    if (std::find(taken.begin(), taken.end(), std::to_string(n)) == taken.end()) name = std::to_string(n);
  }
  conversation.fork(name);
  fmt::print(stderr, "kept as {}; /back {} returns here\n", name, name);
}

void back(const std::string& name, Conversation& conversation) {
  if (name.empty()) {
    const std::vector<std::string> names = conversation.forks();
    fmt::print(stderr, "{}\n",
               names.empty() ? "nothing is kept; /fork keeps the conversation as it stands"
                             : fmt::format("kept: {}", fmt::join(names, ", ")));
    return;
  }
  conversation.back(name);
  fmt::print(stderr, "back at {}: {} messages\n", name, conversation.messages().size());
}

void run(const std::string& command, const std::string& argument, Conversation& conversation,
         const ChatTurn& turn) {
  const auto need_file = [&] {
    if (argument.empty()) throw Error(ErrorCode::kUsage, fmt::format("{} needs the name of a file", command));
  };
  if (command == "/help") {
    fmt::print(stderr, "{}", kHelp);
  } else if (command == "/stats") {
    print_stats(conversation, turn);
  } else if (command == "/save") {
    need_file();
    conversation.save(argument);
    fmt::print(stderr, "saved {} messages to {}\n", conversation.messages().size(), argument);
  } else if (command == "/load") {
    need_file();
    conversation.load(argument);
    fmt::print(stderr, "loaded {} messages from {}\n", conversation.messages().size(), argument);
  } else if (command == "/fork") {
    fork(argument, conversation);
  } else if (command == "/back") {
    back(argument, conversation);
  } else if (command == "/think" && (argument == "on" || argument == "off")) {
    conversation.options().thinking = argument == "on";
    fmt::print(stderr, "thinking {}\n", argument);
  } else if (command == "/reset") {
    conversation.reset();
    fmt::print(stderr, "a new conversation\n");
  } else {
    throw Error(ErrorCode::kUsage, fmt::format("{} is no command; /help lists them", command));
  }
}

}  // namespace

bool run_chat_command(const std::string& line, Conversation& conversation, const ChatTurn& turn) {
  const std::size_t space = line.find_first_of(" \t\n");
  const std::string command = line.substr(0, space);
  const std::size_t begin = space == std::string::npos ? space : line.find_first_not_of(" \t\n", space);
  std::string argument = begin == std::string::npos ? "" : line.substr(begin);
  argument.erase(argument.find_last_not_of(" \t\n") + 1);
  if (command == "/quit" || command == "/exit") return false;
  try {
    run(command, argument, conversation, turn);
  } catch (const Error& error) {
    fmt::print(stderr, "seekline: {}\n", error.what());
  }
  return true;
}

}  // namespace seekline
