// The model as the APIs see it: its chat format, its tokens, its scheduler.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/scheduler.h"
#include "serve/answer.h"

namespace seekline::serve {

struct ServiceOptions {
  std::string model_name;   ///< what answers call the model
  std::string chat_format;  ///< empty: by the checkpoint's family
  SchedulerOptions scheduler;
  double queue_seconds = 600;     ///< longest wait for a turn
  double request_seconds = 3600;  ///< longest time of a request, the wait included
};

/// Thread-safe.
class Service {
 public:
  Service(std::shared_ptr<Model> model, std::shared_ptr<PrefixCache> prefixes, const ServiceOptions& options);

  const Model& model() const { return *model_; }
  const std::string& model_name() const { return options_.model_name; }
  std::int64_t created() const { return created_; }  ///< seconds since 1970
  Scheduler& scheduler() { return scheduler_; }
  const ServiceOptions& options() const { return options_; }

  /// Renders and encodes a chat and sets what of the spec follows from it (prompts, chat, reply_start,
  /// calls_allowed, grammar). Throws ApiError and Error.
  void set_chat(GenerationSpec& spec, const ChatRequest& request) const;
  /// Tokens of a plain text's prompt, with what the model wants in front of it.
  std::vector<TokenId> encode_text(const std::string& text) const;
  void set_grammar(GenerationSpec& spec, const ChatResponseFormat& format) const;
  /// The token `id`, as JSON needs it: text and bytes.
  const Tokenizer& tokenizer() const { return *context_.tokenizer; }

  /// Checks the spec against the model's limits and queues it. Throws ApiError, Refused, Error.
  std::shared_ptr<Generation> start(const GenerationSpec& spec);

 private:
  std::int64_t room_after(std::int64_t prompt_tokens) const;
  void check_lengths(const GenerationSpec& spec) const;
  std::int64_t fit_answer(GenerationSpec& spec, std::int64_t prompt_tokens) const;

  std::shared_ptr<Model> model_;
  const ServiceOptions options_;
  const ChatFormat* format_;
  AnswerContext context_;
  std::int64_t created_;
  Scheduler scheduler_;
};

}  // namespace seekline::serve
