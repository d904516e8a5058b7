// A released tokenizer.json, read and checked: what the tokenizer is built from.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "text/bpe.h"

namespace seekline {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool special = false;
  bool normalized = false;  ///< matched in the second pass
};

struct TokenizerFile {
  std::vector<std::string> spellings;       ///< [id], added tokens included; dense
  std::vector<Merge> merges;                ///< by rank
  bool ignore_merges = false;               ///< a piece that is a token as a whole is not merged up
  std::vector<AddedToken> added;            ///< in the order of the file
  std::vector<std::string> split_patterns;  ///< the pre-tokenizer, step by step
  std::vector<TokenId> begin;               ///< what the post-processor puts before every text
};

/// Throws Error(kNotFound | kIo | kBadFile | kUnsupported) in one sentence.
TokenizerFile read_tokenizer_file(const std::filesystem::path& path);

/// The same for the bytes of a file; `name` names it in messages.
TokenizerFile parse_tokenizer_file(const std::string& text, const std::string& name);

}  // namespace seekline
