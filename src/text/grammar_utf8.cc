#include "text/grammar_utf8.h"

namespace seekline::grammar {
namespace {

using enum Utf8Place;

constexpr Utf8Edge kFirst[] = {{0x20, 0x21, kBetween}, {0x23, 0x5B, kBetween}, {0x5D, 0x7F, kBetween},
                               {0xC2, 0xDF, kOne},     {0xE0, 0xE0, kAfterE0}, {0xE1, 0xEC, kTwo},
                               {0xED, 0xED, kAfterED}, {0xEE, 0xEF, kTwo},     {0xF0, 0xF0, kAfterF0},
                               {0xF1, 0xF3, kThree},   {0xF4, 0xF4, kAfterF4}};
constexpr Utf8Edge kLast[] = {{0x80, 0xBF, kBetween}};
constexpr Utf8Edge kNextToLast[] = {{0x80, 0xBF, kOne}};
constexpr Utf8Edge kThirdToLast[] = {{0x80, 0xBF, kTwo}};
constexpr Utf8Edge kE0[] = {{0xA0, 0xBF, kOne}};  // no overlong forms
constexpr Utf8Edge kED[] = {{0x80, 0x9F, kOne}};  // no surrogates
constexpr Utf8Edge kF0[] = {{0x90, 0xBF, kTwo}};
constexpr Utf8Edge kF4[] = {{0x80, 0x8F, kTwo}};  // up to U+10FFFF

}  // namespace

std::span<const Utf8Edge> utf8_edges(Utf8Place place) {
  switch (place) {
    case kBetween:
      return kFirst;
    case kOne:
      return kLast;
    case kTwo:
      return kNextToLast;
    case kThree:
      return kThirdToLast;
    case kAfterE0:
      return kE0;
    case kAfterED:
      return kED;
    case kAfterF0:
      return kF0;
    case kAfterF4:
      return kF4;
  }
  return {};
}

Utf8States add_characters(Automaton& automaton) {
  Utf8States states{};
  for (StateId& state : states) state = automaton.add_state();
  for (std::size_t i = 0; i < kUtf8Places; ++i)
    for (const Utf8Edge& edge : utf8_edges(static_cast<Utf8Place>(i)))
      automaton.edge(states[i], edge.first, edge.last, at(states, edge.to));
  automaton[at(states, kBetween)].in_text = true;
  return states;
}

}  // namespace seekline::grammar
