// The regular expressions of a tokenizer.json, in the dialect they were written in (Oniguruma's), reduced to
// what released files use. What is not understood exactly is refused by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/char_set.h"

namespace seekline {

/// A pattern as syntax with holes, each hole a set of characters: every literal, class and escape becomes a
/// set.
struct SplitPattern {
  struct Part {
    std::string syntax;  ///< groups, alternation, quantifiers: the same in Oniguruma and PCRE2
    int set = -1;        ///< index into `sets` of what follows the syntax, -1 for nothing
  };
  std::vector<Part> parts;
  std::vector<CharSet> sets;
};

/// Throws Error(kUnsupported | kBadFile) with a sentence about the construct that cannot be honoured.
SplitPattern parse_split_pattern(std::string_view pattern);

/// A pattern as it may stand in a sentence: cut to a readable length, on one line.
std::string shown_pattern(std::string_view pattern);

}  // namespace seekline
