#include "app/logits_prompts.h"

#include <fmt/format.h>

namespace seekline {

void write_prompt_case(const std::shared_ptr<Model>& model, const ReuseOptions& options, const Case& c,
                       SafetensorsWriter& writer) {
  if (c.prompt == 0) throw Error(ErrorCode::kUsage, fmt::format("case {} says no \"prompt\" length", c.id));
  Session session = open_session(model, options);
  const std::span<const std::int32_t> tokens(c.tokens);
  for (const std::int64_t hit : c.hits) session.prompt(tokens.first(static_cast<std::size_t>(hit)));
  session.prompt(tokens.first(static_cast<std::size_t>(c.prompt)));
  const ReuseReport& report = session.reuse();
  writer.add(c.id + "/evaluations", {2},
             std::vector<std::int32_t>{static_cast<std::int32_t>(report.encoder_evaluations),
                                       static_cast<std::int32_t>(report.decoder_evaluations)});
  std::vector<float> logits(session.logits().begin(), session.logits().end());
  for (const std::int32_t token : tokens.subspan(static_cast<std::size_t>(c.prompt))) {
    session.extend(token);
    logits.insert(logits.end(), session.logits().begin(), session.logits().end());
  }
  writer.add(c.id + "/logits",
             {static_cast<std::int64_t>(std::ssize(c.tokens)) - c.prompt + 1, model->vocab_size()}, logits);
}

}  // namespace seekline
