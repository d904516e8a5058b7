// What a grammar of JSON texts is compiled to: states over bytes, where a state may stand for a whole value.
#pragma once

#include <bitset>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace seekline::grammar {

using StateId = std::uint32_t;
using ValueId = std::uint32_t;
inline constexpr std::uint32_t kNone = 0xFFFFFFFF;

/// Arrays and objects inside each other at most; every JSON parser in use reads as many.
inline constexpr std::uint32_t kMaxLevels = 64;
/// A value whose shortest text is longer counts as impossible.
inline constexpr std::uint32_t kMaxShortest = 1u << 20;
inline constexpr std::uint32_t kNever = 0xFFFFFFFF;

struct ByteEdge {
  std::uint8_t first = 0, last = 0;  ///< both inclusive
  StateId target = 0;
};

/// One place in a text. From here a byte may follow, or a whole value, or nothing (`skip`), or the end of the
/// value that the state belongs to.
struct State {
  std::vector<ByteEdge> edges;
  StateId skip = kNone;
  ValueId call = kNone;   ///< a value ...
  StateId after = kNone;  ///< ... and then this state
  bool accepting = false;
  /// Between two characters of a text in quotes: any character that needs no escape may follow, without end.
  bool in_text = false;

  // The shortest way to the end of this state's value (Automaton::measure).
  enum class Step : std::uint8_t { kEnd, kByte, kSkip, kCall };
  std::uint32_t shortest = kNever;  ///< bytes
  std::uint32_t levels = 0;         ///< arrays and objects that this way opens inside each other
  Step step = Step::kEnd;
  std::uint32_t edge = 0;  ///< of kByte
};

/// A value is one of its alternatives.
struct Value {
  struct Start {
    StateId state = 0;
    bool nests = false;  ///< an array or object: counts against kMaxLevels
  };
  std::vector<Start> starts;

  // The shortest alternative.
  std::uint32_t shortest = kNever;
  std::uint32_t levels = 0;
  std::uint32_t start = 0;
};

/// States and values under construction, then frozen by measure(). No value may begin with itself before a
/// byte.
class Automaton {
 public:
  StateId add_state();
  StateId add_end();  ///< an accepting state
  ValueId add_value(std::vector<Value::Start> starts = {});
  State& operator[](StateId state) { return states_[state]; }
  const State& operator[](StateId state) const { return states_[state]; }
  Value& value(ValueId value) { return values_[value]; }
  const Value& value(ValueId value) const { return values_[value]; }
  std::size_t size() const { return states_.size(); }

  void edge(StateId from, std::uint8_t first, std::uint8_t last, StateId to);
  void edge(StateId from, char byte, StateId to);
  void call(StateId from, ValueId value, StateId after);
  /// A chain of states over `text`, whose bytes a vocabulary must be able to spell.
  void literal(StateId from, std::string_view text, StateId to);
  /// Bytes that literals hold.
  const std::bitset<256>& literal_bytes() const { return literal_bytes_; }
  void need_byte(std::uint8_t byte) { literal_bytes_.set(byte); }

  /// Computes the shortest ways. What has none keeps kNever, and must not be entered.
  void measure();

 private:
  std::vector<State> states_;
  std::vector<Value> values_;
  std::bitset<256> literal_bytes_;
};

}  // namespace seekline::grammar
