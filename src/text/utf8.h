// UTF-8 one character at a time, as chapter 3.9 of the Unicode standard defines well-formed sequences.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace seekline {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD

struct Utf8Character {
  enum class Kind : std::uint8_t {
    kValid,
    kInvalid,     ///< certainly no character: `bytes` is the maximal subpart that one U+FFFD stands for
    kIncomplete,  ///< the text ends inside a sequence that could still become a character
  };
  Kind kind = Kind::kInvalid;
  std::uint32_t code_point = 0;  ///< of a valid character only
  std::size_t bytes = 0;
};

/// The first character of `text`, which must not be empty.
Utf8Character first_character(std::string_view text);

/// Appends `bytes` with one U+FFFD for every maximal invalid subpart. Returns how many bytes at the end are
/// an incomplete but still possible sequence; these are not appended.
std::size_t append_lossy(std::string_view bytes, std::string& text);

void append_utf8(std::uint32_t code_point, std::string& text);

}  // namespace seekline
