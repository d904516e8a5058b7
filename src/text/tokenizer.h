// Byte-level BPE from a released tokenizer.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace seekline {

using TokenId = std::int32_t;

/// Immutable after load; `encode` and `decode` may be called from any thread.
class Tokenizer {
 public:
  /// Throws Error(kNotFound | kBadFile | kUnsupported) in one sentence.
  static Tokenizer load(const std::filesystem::path& tokenizer_json);
  /// The same for the bytes of such a file; `name` names it in messages.
  static Tokenizer parse(const std::string& json, const std::string& name);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Ids 0 .. size()-1, added tokens included.
  std::int64_t size() const;

  /// Text (UTF-8; invalid bytes are encoded as bytes, U+FFFD is never substituted) to ids. With `allow_added`
  /// added tokens in the text become their ids; without it they are plain text, as text from a user must be.
  /// Nothing is put before the text (see `begin`). A byte that the vocabulary has no token for vanishes, as
  /// in the reference; DeepSeek's vocabularies have all 256. Error(kLimit): 4 GiB and more.
  std::vector<TokenId> encode(std::string_view text, bool allow_added) const;

  /// The bytes of the ids, special tokens included. Ids out of range are our caller's error: Error(kUsage).
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;
  /// The same with every invalid sequence replaced by U+FFFD (maximal subparts).
  std::string decode_text(std::span<const TokenId> ids, bool skip_special = false) const;

  /// The bytes of one token.
  std::string_view token_bytes(TokenId id) const;
  /// The spelling in the file: GPT-2 byte alphabet, or the content of an added token.
  std::string_view token_spelling(TokenId id) const;
  bool is_added(TokenId id) const;
  bool is_special(TokenId id) const;  ///< added and flagged special
  /// What the file puts before every text (its post-processor's template); empty for DeepSeek.
  std::span<const TokenId> begin() const;
  /// The added token with this content.
  std::optional<TokenId> added_token(std::string_view content) const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

/// Turns a stream of ids into text: holds back an incomplete but still possible UTF-8 sequence and nothing
/// else.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = false);
  /// Text that is certain after `id`.
  std::string push(TokenId id);
  /// What is held back, as U+FFFD; the decoder is then as new.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  std::string held_;
};

}  // namespace seekline
