// The character classes of the tokenizers' Unicode (16.0). Regular-expression and Unicode libraries bring
// their own, older tables, so the engine carries these (tools/unicode_tables/generate.py writes the .cc
// file).
#pragma once

#include <span>

#include "text/char_set.h"

namespace seekline::unicode {

extern const std::span<const CharRange> kLetter;       // \p{L}
extern const std::span<const CharRange> kMark;         // \p{M}
extern const std::span<const CharRange> kNumber;       // \p{N}
extern const std::span<const CharRange> kPunctuation;  // \p{P}
extern const std::span<const CharRange> kSymbol;       // \p{S}
extern const std::span<const CharRange> kSpace;        // \s, the White_Space property

// What Engram's vocabulary compression drops (marks of an older Unicode) and strips at both ends.
extern const std::span<const CharRange> kEngramDropped;
extern const std::span<const CharRange> kEngramStripped;

}  // namespace seekline::unicode
