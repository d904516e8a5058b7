// UTF-8 inside JSON strings as an automaton over bytes (Unicode 16, table 3-7).
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "text/grammar_automaton.h"

namespace seekline::grammar {

/// What must follow to complete the character that has begun.
enum class Utf8Place : std::uint8_t {
  kBetween,  ///< no character has begun
  kOne,      ///< one continuation byte
  kTwo,
  kThree,
  kAfterE0,
  kAfterED,
  kAfterF0,
  kAfterF4,
};
inline constexpr std::size_t kUtf8Places = 8;

struct Utf8Edge {
  std::uint8_t first, last;
  Utf8Place to;
};

/// The bytes that may follow. Between characters: those that stand for themselves in a JSON string, so
/// neither quote nor backslash nor control characters.
std::span<const Utf8Edge> utf8_edges(Utf8Place place);

/// One state for each place.
using Utf8States = std::array<StateId, kUtf8Places>;
inline StateId at(const Utf8States& states, Utf8Place place) {
  return states[static_cast<std::size_t>(place)];
}

/// States that read characters for ever. The quote that ends the text is the caller's to add to kBetween, and
/// escapes, if any.
Utf8States add_characters(Automaton& automaton);

}  // namespace seekline::grammar
