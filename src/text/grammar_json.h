// The parts of JSON that every grammar is built from (RFC 8259, written compactly or indented).
#pragma once

#include <string>
#include <vector>

#include "text/grammar_automaton.h"

namespace seekline::grammar {

inline constexpr int kMaxIndent = 40;          // blanks after a line end
inline constexpr int kMaxIntegerDigits = 18;   // fits 64 bits
inline constexpr int kMaxFractionDigits = 17;  // what a double can tell apart
inline constexpr int kMaxExponentDigits = 2;   // with 18 digits before it still a double

/// A property of an object, in the order in which it is written.
struct Property {
  std::string name;
  bool required = false;
  ValueId value = kNone;  ///< kNone: it must not be there
};

/// Adds pieces to an automaton; makes each shared piece once.
///
/// White space stands only where pretty printers put it: after { [ , and before } ], either one blank or one
/// line end with up to kMaxIndent blanks or tabs; after : at most one blank. So a model cannot go on with
/// blanks for ever.
class JsonParts {
 public:
  explicit JsonParts(Automaton& automaton);

  StateId string() const { return string_; }
  StateId number() const { return number_; }
  StateId integer() const { return integer_; }
  ValueId any() const { return any_; }
  StateId any_object() const { return any_object_; }
  StateId any_array() const { return any_array_; }

  /// One of these texts, which must not be empty.
  StateId one_of(const std::vector<std::string>& texts);

  /// `items` kNone: only the empty array.
  void build_array(StateId start, ValueId items);
  /// Properties in the order of the list, optional ones may be left out; then, unless `others` is kNone, any
  /// number of further ones with values `others`, whose names are none of the list's and are written without
  /// escapes where the list is not empty.
  void build_object(StateId start, const std::vector<Property>& properties, ValueId others);

 private:
  StateId make_string();
  StateId make_number(bool integer);
  ValueId make_gap();
  void add_escapes(StateId body);
  StateId hex_digits(int count, StateId to);
  StateId other_name(const std::vector<std::string>& names);
  StateId add_colon_and_value(ValueId value, StateId after);

  Automaton& a_;
  ValueId gap_ = kNone;
  StateId string_ = 0, number_ = 0, integer_ = 0, any_object_ = 0, any_array_ = 0;
  ValueId any_ = kNone;
};

/// `text` between quotes as JSON writes it, nothing escaped that need not be. Must be UTF-8.
std::string quoted(const std::string& text);

}  // namespace seekline::grammar
