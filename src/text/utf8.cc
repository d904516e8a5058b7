#include "text/utf8.h"

namespace seekline {
namespace {

struct Lead {
  std::size_t bytes;  // length of the sequence; 0: no sequence starts with this byte
  std::uint8_t second_low = 0x80, second_high = 0xBF;  // which second bytes keep it shortest and no surrogate
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1};
  if (byte >= 0xC2 && byte <= 0xDF) return {2};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {3};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {4};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0};
}

}  // namespace

Utf8Character first_character(std::string_view text) {
  using Kind = Utf8Character::Kind;
  const auto first = static_cast<std::uint8_t>(text[0]);
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {Kind::kInvalid, 0, 1};
  if (lead.bytes == 1) return {Kind::kValid, first, 1};
  std::uint32_t code_point = first & (0xFFU >> (lead.bytes + 1));
  for (std::size_t i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {Kind::kIncomplete, 0, i};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    const std::uint8_t low = i == 1 ? lead.second_low : 0x80;
    const std::uint8_t high = i == 1 ? lead.second_high : 0xBF;
    if (byte < low || byte > high) return {Kind::kInvalid, 0, i};
    code_point = code_point << 6 | (byte & 0x3FU);
  }
  return {Kind::kValid, code_point, lead.bytes};
}

std::size_t append_lossy(std::string_view bytes, std::string& text) {
  while (!bytes.empty()) {
    const Utf8Character character = first_character(bytes);
    if (character.kind == Utf8Character::Kind::kIncomplete) return bytes.size();
    const bool valid = character.kind == Utf8Character::Kind::kValid;
    text += valid ? bytes.substr(0, character.bytes) : kReplacementCharacter;
    bytes.remove_prefix(character.bytes);
  }
  return 0;
}

void append_utf8(std::uint32_t code_point, std::string& text) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  const auto put_rest = [&](int shift) { put(0x80U | (code_point >> shift & 0x3FU)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0U | code_point >> 6);
    put_rest(0);
  } else if (code_point < 0x10000) {
    put(0xE0U | code_point >> 12);
    put_rest(6);
    put_rest(0);
  } else {
    put(0xF0U | code_point >> 18);
    put_rest(12);
    put_rest(6);
    put_rest(0);
  }
}

}  // namespace seekline
