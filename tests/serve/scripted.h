// Answers that a script writes instead of a model, through the same path as real ones.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/prefix_cache.h"
#include "serve/api.h"
#include "serve/service.h"

namespace seekline::serve {

inline std::string tiny_model_folder() {
  return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/models/v41-tiny";
}

inline std::shared_ptr<Model> open_tiny(std::int64_t cache_limit = 0, std::int64_t context = 0) {
  ModelOptions options;
  options.threads = 1;
  options.cache_limit_bytes = cache_limit;
  options.context = context;
  return Model::open(tiny_model_folder(), options);
}

inline std::shared_ptr<PrefixCache> prefixes_of(Model& model) {
  return std::make_shared<PrefixCache>(model.pages(), model.options().decoder);
}

inline ServiceOptions tiny_service_options() {
  ServiceOptions options;
  options.model_name = "tiny";
  return options;
}

/// A service with the tiny V4.1 model: its tokenizer has every control token.
inline Service& tiny_service() {
  static const std::shared_ptr<Model> model = open_tiny();
  static Service service(model, prefixes_of(*model), tiny_service_options());
  return service;
}

inline AnswerContext tiny_context() {
  AnswerContext context;
  context.tokenizer = &tiny_service().tokenizer();
  context.syntax = &chat_format("deepseek-v4.1").reply_syntax();
  context.end_tokens = {1};
  context.think_end = context.tokenizer->added_token("</think>");
  context.vocab_size = 1024;
  context.vocabulary = TokenVocabulary::of(*context.tokenizer, context.end_tokens);
  return context;
}

struct Script {
  std::string text;  ///< with control tokens spelled out
  bool ends = true;  ///< with an end token; else the token limit cuts it
  std::int64_t max_tokens = 1000;
};

/// Feeds the script to an Answer; returns how many tokens it took.
inline std::size_t play(const AnswerContext& context, const GenerationSpec& spec, const Script& script,
                        const std::shared_ptr<Generation>& generation) {
  Answer answer(context, spec, 0, script.max_tokens, generation);
  std::vector<TokenId> tokens = context.tokenizer->encode(script.text, /*allow_added=*/true);
  if (script.ends) tokens.push_back(1);
  answer.on_start({});
  std::size_t taken = 0;
  bool goes_on = true;
  for (const TokenId token : tokens) {
    if (!goes_on) break;
    answer.allowed();
    goes_on = answer.on_token({token, -0.5f, {{token, -0.5f}}});
    ++taken;
  }
  SequenceSummary summary;
  summary.end = goes_on ? SequenceEnd::kLength : SequenceEnd::kStopped;
  answer.on_end(summary);
  return taken;
}

inline GenerationSpec chat_spec(bool calls = false, ReplyStart start = ReplyStart::kReasoning) {
  GenerationSpec spec;
  spec.prompts = {{0, 996, 40, 997, 1008}};
  spec.chat = true;
  spec.reply_start = start;
  spec.calls_allowed = calls;
  return spec;
}

/// All events of a finished generation.
inline std::vector<GenerationEvent> drain(Generation& generation) {
  std::vector<GenerationEvent> events;
  while (auto event = generation.next(Generation::Clock::now())) events.push_back(std::move(*event));
  EXPECT_TRUE(generation.done());
  return events;
}

inline const char* const kTwoCalls =
    "I think.</think>Let me look.\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"find\">\n"
    "<｜DSML｜ parameter name=\"what\" string=\"true\">a \"b\"</｜DSML｜ parameter>\n"
    "<｜DSML｜ parameter name=\"n\" string=\"false\">3</｜DSML｜ parameter>\n</｜DSML｜ invoke>\n"
    "<｜DSML｜ invoke name=\"open\">\n<｜DSML｜ parameter name=\"id\" string=\"false\">7</｜DSML｜ "
    "parameter>\n"
    "</｜DSML｜ invoke>\n</｜DSML｜ calls>";

inline const char* const kBrokenCall =
    "Hm.</think>Now:\n\n<｜DSML｜ calls>\n<｜DSML｜ invoke name=\"find\">\n"
    "<｜DSML｜ parameter name=\"what\" string=\"false\">{oops</｜DSML｜ parameter>\n</｜DSML｜ "
    "invoke>\n</｜DSML｜ calls>";

}  // namespace seekline::serve
