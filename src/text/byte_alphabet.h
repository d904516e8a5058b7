// GPT-2's byte alphabet: a printable character for each byte, in which tokenizer.json spells its tokens.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace seekline {

/// The character that stands for `byte`, as UTF-8.
std::string byte_spelling(std::uint8_t byte);

/// The bytes that `spelling` stands for; a spelling with any character outside the alphabet stands for
/// itself.
std::string bytes_of_spelling(std::string_view spelling);

}  // namespace seekline
