#include "text/tokenizer.h"
#include "text/utf8.h"

namespace seekline {
namespace {

/// Two bytes that begin a surrogate are certainly no character, but the reference's decoder waits for the
/// third.
bool ends_in_surrogate(std::string_view bytes) {
  if (bytes.size() < 2) return false;
  const auto first = static_cast<std::uint8_t>(bytes[bytes.size() - 2]);
  const auto second = static_cast<std::uint8_t>(bytes[bytes.size() - 1]);
  return first == 0xED && second >= 0xA0 && second <= 0xBF;
}

}  // namespace

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(&tokenizer), skip_special_(skip_special) {}

std::string StreamDecoder::push(TokenId id) {
  std::string text;
  if (skip_special_ && tokenizer_->is_special(id)) return text;
  held_ += tokenizer_->token_bytes(id);
  if (ends_in_surrogate(held_)) {
    const std::string_view before = std::string_view(held_).substr(0, held_.size() - 2);
    if (append_lossy(before, text) > 0) text += kReplacementCharacter;
    held_.erase(0, before.size());
  } else {
    held_.erase(0, held_.size() - append_lossy(held_, text));
  }
  return text;
}

std::string StreamDecoder::flush() {
  std::string text;
  if (append_lossy(held_, text) > 0) text += kReplacementCharacter;
  held_.clear();
  return text;
}

}  // namespace seekline
