#include "text/tokenizer.h"
#include "text/utf8.h"

namespace seekline {

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  if (skip_special_ && tokenizer_->is_special(id)) return text;
  held_ += tokenizer_->token_bytes(id);
  const std::size_t held_bytes = append_lossy(held_, text);
  held_.erase(0, held_.size() - held_bytes);
  return text;
}

std::string StreamDecoder::flush() {
  std::string text;
  if (!held_.empty()) text = kReplacementCharacter;  // what is held is always one incomplete sequence
  held_.clear();
  return text;
}

}  // namespace seekline
