#include "app/session_talk.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "model/network.h"
#include "text/chat_json.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

const char* role_name(ChatRole role) {
  switch (role) {
    case ChatRole::kSystem:
      return "system";
    case ChatRole::kUser:
      return "user";
    default:
      return "assistant";
  }
}

// The messages as a chat request's body: what the session file carries as its note.
std::string note_of(const std::vector<ChatMessage>& messages) {
  ChatJson list = ChatJson::array();
  for (const ChatMessage& message : messages) {
    std::string words;
    for (const ChatPart& part : message.content) words += part.text;
    list.push_back({{"role", role_name(message.role)}, {"content", words}});
  }
  return ChatJson{{"messages", list}}.dump();
}

}  // namespace

SessionTalk::SessionTalk(std::shared_ptr<Model> model, bool raw, std::filesystem::path file)
    : model_(std::move(model)),
      format_(raw ? nullptr : chat_format_of(model_->network().family(), model_->required_tokenizer())),
      file_(std::move(file)) {
  if (!file_.empty()) files_ = std::make_unique<SessionFiles>(*model_);
}

void SessionTalk::restore(Session& session) {
  if (file_.empty() || !std::filesystem::exists(file_)) return;
  const std::string note = files_->restore(session, file_);
  if (note.empty() != (format_ == nullptr))
    throw Error(ErrorCode::kUsage, fmt::format("session file {} was written {} --raw, and goes on only so",
                                               file_.string(), note.empty() ? "with" : "without"));
  if (note.empty()) return;
  const ChatJson body = ChatJson::parse(note, nullptr, false);
  if (body.is_discarded())
    throw Error(ErrorCode::kBadFile, fmt::format("session file {} holds no messages", file_.string()));
  messages_ = chat_request_from_json(body).messages;
}

void SessionTalk::say(ChatRole role, const std::string& words) {
  ChatMessage message;
  message.role = role;
  message.content.push_back({ChatPart::Kind::kText, words});
  messages_.push_back(std::move(message));
}

std::vector<std::int32_t> SessionTalk::prompt_tokens(const Session& session, const std::string& system,
                                                     const std::string& text) {
  const Tokenizer& tokenizer = model_->required_tokenizer();
  std::vector<std::int32_t> ids;
  if (format_) {
    if (!system.empty()) {
      if (!messages_.empty())
        throw Error(ErrorCode::kUsage, "a session that goes on has its system message; leave --system out");
      say(ChatRole::kSystem, system);
    }
    say(ChatRole::kUser, text);
    ChatRequest request;
    request.messages = messages_;
    request.thinking = false;
    ids = encode_prompt(format_->render(request), tokenizer);
  } else {
    if (session.length() == 0) ids.assign(tokenizer.begin().begin(), tokenizer.begin().end());
    ids.insert(ids.end(), session.tokens().begin(), session.tokens().end());
    const std::vector<std::int32_t> more = tokenizer.encode(text, false);
    ids.insert(ids.end(), more.begin(), more.end());
    const std::int64_t bos = model_->network().bos_token_id();
    if (session.length() == 0 && tokenizer.begin().empty() && bos >= 0 &&
        model_->network().family() != "llama")
      ids.insert(ids.begin(), static_cast<std::int32_t>(bos));
  }
  if (ids.empty()) throw Error(ErrorCode::kUsage, "the prompt is empty, and there is nothing to continue");
  return ids;
}

void SessionTalk::save(const Session& session, const std::string& answer) {
  if (file_.empty()) return;
  if (format_) say(ChatRole::kAssistant, answer);
  files_->save(session, file_, format_ ? note_of(messages_) : std::string());
}

}  // namespace seekline
