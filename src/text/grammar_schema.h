// From a JSON Schema to an automaton.
#pragma once

#include <nlohmann/json.hpp>

#include "text/grammar_automaton.h"

namespace seekline::grammar {

/// Adds the values that validate against `schema` and measures the automaton. Errors as
/// Grammar::from_json_schema says.
ValueId add_schema(Automaton& automaton, const nlohmann::ordered_json& schema);

}  // namespace seekline::grammar
