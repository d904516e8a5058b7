#include "app/chat_conversation.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "app/chat_file.h"
#include "engine/stop_strings.h"
#include "model/network.h"

namespace seekline {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool contains(const std::vector<std::int32_t>& tokens, std::int32_t token) {
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// Passes the text of a reply on, and ends it at a stop string in the content.
class ReplyText {
 public:
  ReplyText(const std::vector<std::string>& stops, const ChatText& on_text)
      : stops_(stops), on_text_(on_text) {}

  void pass(const std::vector<ReplyEvent>& events) {
    for (const ReplyEvent& event : events) {
      if (event.kind == ReplyEvent::Kind::kReasoning) {
        reasoning_ += event.text;
        if (!event.text.empty()) on_text_(event.text, true);
      } else if (event.kind == ReplyEvent::Kind::kContent) {
        say(stops_.push(event.text));
      }
    }
  }

  void finish() { say(stops_.flush()); }
  bool stopped() const { return stops_.matched(); }
  const std::string& reasoning() const { return reasoning_; }
  const std::string& content() const { return content_; }

 private:
  void say(const std::string& text) {
    content_ += text;
    if (!text.empty()) on_text_(text, false);
  }

  StopStrings stops_;
  const ChatText& on_text_;
  std::string reasoning_, content_;
};

}  // namespace

ChatMessage text_message(ChatRole role, const std::string& text) {
  ChatMessage message;
  message.role = role;
  message.content.push_back({ChatPart::Kind::kText, text});
  return message;
}

std::string text_of(const ChatMessage& message) {
  std::string text;
  for (const ChatPart& part : message.content) text += part.text;
  return text;
}

Conversation::Conversation(std::shared_ptr<Model> model, ChatOptions options)
    : model_(std::move(model)),
      format_(chat_format_of(model_->network().family(), model_->required_tokenizer())),
      options_(std::move(options)),
      session_(std::make_unique<Session>(open_session(model_, options_.reuse))) {
  if (format_ == nullptr)
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{} is a model without a chat format; use seekline run --raw",
                            model_->network().family()));
  check_sampling_options(options_.generate.sampling);
  options_.generate.end_tokens = model_->end_tokens();
  reset();
}

Conversation::~Conversation() = default;

void Conversation::reset() {
  messages_.clear();
  if (!options_.system.empty()) messages_.push_back(text_message(ChatRole::kSystem, options_.system));
}

void Conversation::fork(const std::string& name) {
  forks_[name] = {messages_, std::make_unique<Session>(session_->fork())};
}

void Conversation::back(const std::string& name) {
  const auto found = forks_.find(name);
  if (found == forks_.end())
    throw Error(ErrorCode::kNotFound,
                fmt::format("there is no fork {}; there are: {}", name,
                            forks_.empty() ? "none" : fmt::format("{}", fmt::join(forks(), ", "))));
  messages_ = found->second.messages;
  session_ = std::make_unique<Session>(found->second.session->fork());
}

std::vector<std::string> Conversation::forks() const {
  std::vector<std::string> names;
  for (const auto& [name, fork] : forks_) names.push_back(name);
  return names;
}

std::vector<TokenId> Conversation::prompt_tokens(ReplyStart& start) const {
  ChatRequest request;
  request.messages = messages_;
  request.thinking = options_.thinking;
  if (!options_.effort.empty()) request.effort = ChatEffort{options_.effort, 0};
  check_chat_request(request);
  const ChatPrompt prompt = format_->render(request);
  start = prompt.reply_start;
  return encode_prompt(prompt, model_->required_tokenizer());
}

ChatTurn Conversation::ask(const std::string& text, const ChatText& on_text, const ChatProgress& progress,
                           const std::function<bool()>& stop) {
  messages_.push_back(text_message(ChatRole::kUser, text));
  const std::size_t asked = messages_.size();
  try {
    ChatTurn turn = answer(on_text, progress, stop);
    if (messages_.size() == asked) messages_.pop_back();
    return turn;
  } catch (...) {
    messages_.resize(asked - 1);
    throw;
  }
}

ChatTurn Conversation::answer(const ChatText& on_text, const ChatProgress& progress,
                              const std::function<bool()>& stop) {
  ReplyOptions reply_options;
  const std::vector<TokenId> prompt = prompt_tokens(reply_options.start);
  ChatTurn turn;
  const auto all = static_cast<std::int64_t>(prompt.size());
  Clock::time_point start = Clock::now();
  const bool is_read = session_->prompt(prompt, [&](std::int64_t done) {
    progress(done, all);
    return !stop();
  });
  turn.prompt_seconds = seconds_since(start);
  turn.reuse = session_->reuse();
  turn.reason = FinishReason::kCancelled;
  if (!is_read) return turn;
  Sampler sampler(options_.generate.sampling);
  ReplyStream reply(model_->required_tokenizer(), format_->reply_syntax(), reply_options);
  ReplyText text(options_.generate.stop, on_text);
  std::vector<std::int32_t> tokens;
  start = Clock::now();
  for (;;) {
    const std::int32_t token = sampler.choose(session_->logits(), prompt, tokens).token;
    tokens.push_back(token);
    if (contains(options_.generate.end_tokens, token)) {
      turn.reason = FinishReason::kEndToken;
      break;
    }
    text.pass(reply.push(token));
    if (text.stopped()) turn.reason = FinishReason::kStopString;
    if (text.stopped() || stop()) break;
    turn.reason = FinishReason::kLength;
    if (std::ssize(tokens) == options_.generate.max_tokens) break;
    turn.reason = FinishReason::kContext;
    if (session_->length() + 1 > model_->context()) break;
    session_->extend(token);
    turn.reason = FinishReason::kCancelled;
  }
  if (!text.stopped()) {
    text.pass(reply.finish());
    text.finish();
  }
  turn.answer_seconds = seconds_since(start);
  turn.answer_tokens = std::ssize(tokens);
  ChatMessage message = text_message(ChatRole::kAssistant, text.content());
  message.reasoning = text.reasoning();
  messages_.push_back(std::move(message));
  return turn;
}

void Conversation::save(const std::filesystem::path& file) const {
  write_chat_file(file, {messages_, options_.thinking});
}

void Conversation::load(const std::filesystem::path& file) {
  ChatFile chat = read_chat_file(file);
  messages_ = std::move(chat.messages);
  if (chat.thinking) options_.thinking = chat.thinking;
}

}  // namespace seekline
