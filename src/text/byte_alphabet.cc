#include "text/byte_alphabet.h"

#include <array>

#include "text/utf8.h"

namespace seekline {
namespace {

struct Alphabet {
  std::array<std::uint32_t, 256> character_of{};
  std::array<int, 324> byte_of{};  // -1: outside the alphabet

  Alphabet() {
    byte_of.fill(-1);
    std::uint32_t next = 0x100;
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
      character_of[byte] = itself ? byte : next++;
      byte_of[character_of[byte]] = static_cast<int>(byte);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string byte_spelling(std::uint8_t byte) {
  std::string result;
  append_utf8(alphabet().character_of[byte], result);
  return result;
}

std::string bytes_of_spelling(std::string_view spelling) {
  std::string bytes;
  for (std::string_view rest = spelling; !rest.empty();) {
    const Utf8Character character = first_character(rest);
    const bool in_alphabet = character.kind == Utf8Character::Kind::kValid &&
                             character.code_point < alphabet().byte_of.size() &&
                             alphabet().byte_of[character.code_point] >= 0;
    if (!in_alphabet) return std::string(spelling);
    bytes += static_cast<char>(alphabet().byte_of[character.code_point]);
    rest.remove_prefix(character.bytes);
  }
  return bytes;
}

}  // namespace seekline
