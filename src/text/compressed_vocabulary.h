// Engram's compressed vocabulary: token ids whose normalised text is the same share a class (spec: text).
#pragma once

#include <cstdint>
#include <vector>

#include "text/tokenizer.h"

namespace seekline {

struct CompressedVocabulary {
  std::vector<std::int32_t> class_of;  ///< [tokenizer.size()], classes in first-seen order
  std::int32_t classes = 0;
};

CompressedVocabulary compress_vocabulary(const Tokenizer& tokenizer);

}  // namespace seekline
