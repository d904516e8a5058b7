// Request fields that OpenAI's APIs have in common.
#pragma once

#include "serve/api.h"
#include "serve/json_field.h"

namespace seekline::serve {

/// temperature, top_p, top_k, min_p, penalties, seed, logit_bias.
void read_sampling(const Field& body, SamplingOptions& sampling);
/// stream_options.include_usage
bool read_include_usage(const Field& body);
/// `stop`: a string or a list of at most 16.
std::vector<std::string> read_stop(const Field& stop);
/// Whether a choice's ends are "stop", "length" or "tool_calls".
const char* openai_finish(Finish finish);
/// The usage object, with DeepSeek's cache fields.
ChatJson openai_usage(const TokenCounts& counts);

}  // namespace seekline::serve
