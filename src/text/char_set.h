// Sets of code points as ranges, and the partition of all code points that a list of sets induces.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace seekline {

inline constexpr std::uint32_t kLastCodePoint = 0x10FFFF;

struct CharRange {
  std::uint32_t first = 0, last = 0;  ///< both inclusive
  bool operator==(const CharRange&) const = default;
};

class CharSet {
 public:
  CharSet() = default;
  explicit CharSet(std::vector<CharRange> ranges);
  static CharSet of(std::uint32_t code_point) { return CharSet({{code_point, code_point}}); }

  /// Ascending, disjoint, not touching each other.
  std::span<const CharRange> ranges() const { return ranges_; }
  bool empty() const { return ranges_.empty(); }
  bool contains(std::uint32_t code_point) const;
  CharSet complement() const;
  CharSet united(const CharSet& other) const;

 private:
  std::vector<CharRange> ranges_;
};

/// Splits the code points into classes whose members lie in the same ones of the given sets. A pattern that
/// is made of these sets cannot tell two members of a class apart, so it may be matched on class numbers, one
/// byte a character, instead of on text.
class CharPartition {
 public:
  static constexpr int kMaxClasses = 255;
  /// The class of a byte that is part of no character: in no set but those that hold U+10FFFF, as complements
  /// do.
  static constexpr std::uint8_t kInvalidByte = 0;

  /// `ok()` is false where the sets induce more than kMaxClasses classes; nothing else may be called then.
  explicit CharPartition(std::span<const CharSet> sets);
  bool ok() const { return classes_ <= kMaxClasses; }

  std::uint8_t class_of(std::uint32_t code_point) const {
    return pages_[page_of_[code_point >> 8]][code_point & 0xFF];
  }
  /// Which classes make up set `i` of the constructor's list, kInvalidByte included where it belongs.
  std::vector<std::uint8_t> classes_of_set(std::size_t i) const;

 private:
  int classes_ = 1;                                   // kInvalidByte and those of characters
  std::vector<std::vector<bool>> members_;            // [set][class]
  std::vector<std::uint16_t> page_of_;                // [code point / 256]
  std::vector<std::array<std::uint8_t, 256>> pages_;  // equal pages are kept once
};

}  // namespace seekline
