// A conversation with a model: its messages, the session that has computed them, and where it was forked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "app/reuse_options.h"
#include "engine/generate.h"
#include "seekline/session.h"
#include "text/chat.h"

namespace seekline {

struct ChatOptions {
  std::string system;
  std::optional<bool> thinking;  ///< absent: what the model's format does by itself
  std::string effort;            ///< empty: the format's default
  GenerateOptions generate;
  ReuseOptions reuse;
};

/// What one answer took.
struct ChatTurn {
  std::int64_t answer_tokens = 0;
  double prompt_seconds = 0, answer_seconds = 0;
  FinishReason reason = FinishReason::kEndToken;
  ReuseReport reuse;
};

/// Called from the thread that asks. `is_reasoning` tells thoughts from content.
using ChatText = std::function<void(std::string_view text, bool is_reasoning)>;
/// Tokens of the prompt that are there, of how many.
using ChatProgress = std::function<void(std::int64_t done, std::int64_t all)>;

class Conversation {
 public:
  /// Throws Error(kUnsupported) where the model has no chat format.
  Conversation(std::shared_ptr<Model> model, ChatOptions options);
  ~Conversation();

  /// Adds `text` as the user's message and the answer, which streams to `on_text`. Where `stop` returns true
  /// the answer ends with what is there and stays in the conversation; a message that got no answer at all is
  /// taken back. Throws as Session::prompt, with the conversation as it was.
  ChatTurn ask(const std::string& text, const ChatText& on_text, const ChatProgress& progress,
               const std::function<bool()>& stop);

  /// Forgets all messages but the system's.
  void reset();
  /// Keeps the conversation as it stands under a name; going on does not change what is kept.
  void fork(const std::string& name);
  /// Goes on with what is kept under a name; Error(kNotFound) lists the names.
  void back(const std::string& name);
  std::vector<std::string> forks() const;

  /// The messages and settings as JSON. Errors: kIo, kNotFound, kBadFile.
  void save(const std::filesystem::path& file) const;
  void load(const std::filesystem::path& file);

  const std::vector<ChatMessage>& messages() const { return messages_; }
  const Session& session() const { return *session_; }
  ChatOptions& options() { return options_; }

 private:
  struct Fork {
    std::vector<ChatMessage> messages;
    std::unique_ptr<Session> session;
  };

  std::vector<TokenId> prompt_tokens(ReplyStart& start) const;
  ChatTurn answer(const ChatText& on_text, const ChatProgress& progress, const std::function<bool()>& stop);

  std::shared_ptr<Model> model_;
  const ChatFormat* format_;
  ChatOptions options_;
  std::vector<ChatMessage> messages_;
  std::unique_ptr<Session> session_;
  std::map<std::string, Fork> forks_;
};

ChatMessage text_message(ChatRole role, const std::string& text);
std::string text_of(const ChatMessage& message);

}  // namespace seekline
