// The parts of a tokenizer.json around the vocabulary. A component whose effect is not known exactly is
// refused by name, never skipped.
#pragma once

#include <string>
#include <vector>

#include "text/json_view.h"
#include "text/tokenizer.h"

namespace seekline {

/// Only normalizers that change nothing are known.
void check_normalizer(const JsonView& normalizer);
/// The steps as patterns; the last step of the file must be the byte alphabet.
std::vector<std::string> split_patterns_of(const JsonView& pre_tokenizer);
/// Ids that are put before every text.
std::vector<TokenId> begin_of(const JsonView& post_processor);
void check_decoder(const JsonView& decoder);

}  // namespace seekline
