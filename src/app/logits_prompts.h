// `seekline logits --prompts`: cases as prompts and answers, as a session computes them.
#pragma once

#include <memory>

#include "app/reuse_options.h"
#include "checkpoint/cases.h"
#include "checkpoint/safetensors_writer.h"

namespace seekline {

/// Adds "<id>/logits" f32 [tokens - prompt + 1, vocab] and "<id>/evaluations" i32 [2] (tokens x layers of the
/// encoder and of the decoder part that the prompt took). Throws Error(kUsage) for a case without a prompt.
void write_prompt_case(const std::shared_ptr<Model>& model, const ReuseOptions& options, const Case& c,
                       SafetensorsWriter& writer);

}  // namespace seekline
