// Cuts text into the pieces that byte-pair merges never cross.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace seekline {

/// The steps of a tokenizer.json as regular expressions; each one cuts every piece that the step before left
/// into its matches and what lies between them, and sees nothing outside the piece. Immutable; any thread may
/// cut.
///
/// Matching runs on class numbers, one byte a character (char_set.h): the Unicode tables are ours, the
/// regular expression engine needs none, and bytes that are no UTF-8 have a class like any unassigned
/// character.
class Pretokenizer {
 public:
  /// Throws Error(kUnsupported | kBadFile): a pattern that cannot be honoured, or one that matches nothing.
  explicit Pretokenizer(const std::vector<std::string>& patterns);
  ~Pretokenizer();
  Pretokenizer(Pretokenizer&&) noexcept;
  Pretokenizer& operator=(Pretokenizer&&) noexcept;

  /// Appends the lengths in bytes of the pieces of `text`, in order; they add up to text.size(), none is 0.
  /// Throws Error(kLimit) where a pattern of the file backtracks without end on this text.
  void cut(std::string_view text, std::vector<std::size_t>& piece_bytes) const;

 private:
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

}  // namespace seekline
