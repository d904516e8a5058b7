// The conversation of `seekline run`: one turn after those that a session file holds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "seekline/session_file.h"
#include "text/chat.h"

namespace seekline {

class SessionTalk {
 public:
  /// `raw`: texts follow each other as they stand. `file`: where the session lies; may be empty, or not there
  /// yet.
  SessionTalk(std::shared_ptr<Model> model, bool raw, std::filesystem::path file);

  /// Puts what the file holds into the empty `session`. Throws as SessionFiles::restore, and Error(kBadFile)
  /// where the file's messages cannot be read.
  void restore(Session& session);
  /// All turns and the user's new one in the model's chat form. Throws Error(kUsage) for an empty prompt.
  std::vector<std::int32_t> prompt_tokens(const Session& session, const std::string& system,
                                          const std::string& text);
  /// Writes the file, with the answer as the last turn.
  void save(const Session& session, const std::string& answer);

 private:
  void say(ChatRole role, const std::string& words);

  std::shared_ptr<Model> model_;
  const ChatFormat* format_;
  std::filesystem::path file_;
  std::unique_ptr<SessionFiles> files_;
  std::vector<ChatMessage> messages_;
};

}  // namespace seekline
