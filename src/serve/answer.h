// One choice while it is generated: from tokens to reasoning, content and calls, and what may come next.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/stop_strings.h"
#include "serve/generation.h"
#include "text/reply.h"

namespace seekline::serve {

/// What all answers of a model share.
struct AnswerContext {
  const Tokenizer* tokenizer = nullptr;
  const ReplySyntax* syntax = nullptr;  ///< of chats; null where the model has no chat format
  std::vector<std::int32_t> end_tokens;
  std::optional<TokenId> think_end;                   ///< the token </think>
  std::shared_ptr<const TokenVocabulary> vocabulary;  ///< of constrained answers
  std::int64_t vocab_size = 0;
};

/// Lives on the scheduler's thread; everything it finds goes to its Generation.
class Answer final : public SequenceClient {
 public:
  /// `max_tokens` is the sequence's own limit. `context` must outlive the answer.
  Answer(const AnswerContext& context, const GenerationSpec& spec, int index, std::int64_t max_tokens,
         std::shared_ptr<Generation> generation);

  void on_start(const ReuseReport& report) override;
  void on_prompt(std::int64_t done) override;
  void on_cache(std::span<const std::int64_t> store_bytes) override;
  std::span<const std::uint8_t> allowed() override;
  bool on_token(const Choice& choice) override;
  void on_end(const SequenceSummary& summary) override;

 private:
  bool in_reasoning() const { return reasoning_; }
  bool take(const Choice& choice);
  void feed(TokenId token);
  void pass(std::vector<ReplyEvent> events);
  void say(std::string text);
  void finish_text();

  const AnswerContext& context_;
  const int index_;
  const std::int64_t max_tokens_;
  const bool parallel_calls_, wants_records_;
  const std::optional<std::int64_t> reasoning_limit_;
  std::shared_ptr<Generation> generation_;

  std::optional<ReplyStream> reply_;      // of chats
  std::optional<StreamDecoder> decoder_;  // of plain text
  StopStrings stops_;
  std::optional<GrammarState> grammar_;
  const std::vector<TokenId> closing_;  // behind the grammar's text
  std::vector<std::uint8_t> mask_;
  std::vector<TokenRecord> records_;  // of content that is held back
  bool reasoning_ = false;
  bool calls_ended_ = false;  // a well-formed block
  bool called_ = false;
  bool over_ = false;  // nothing is passed on any more
  bool started_ = false;
  ChoiceOutcome facts_;
};

}  // namespace seekline::serve
