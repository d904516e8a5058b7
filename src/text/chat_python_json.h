// JSON text exactly as Python's json.dumps(value, ensure_ascii=False) writes it: what the models were trained
// on.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace seekline {

/// ", " and ": ", keys in their own order, floats as Python's repr, everything outside ASCII as itself.
std::string python_json(const nlohmann::ordered_json& value);

/// repr(float): the shortest digits that read back, "1.0", "1e-05", "1e+16".
std::string python_float(double value);

/// Appends `text` as it stands between the quotes of a JSON string. May be called piece by piece.
void append_json_escaped(std::string_view text, std::string& out);

/// A value for an error message: JSON in ASCII, at most 80 bytes.
std::string shown(const nlohmann::ordered_json& value);

/// No array or object of `value` is deeper than parse_json allows.
bool is_shallow(const nlohmann::ordered_json& value);

/// Parses JSON from outside: no byte order mark, at most 127 levels deep, of equal keys the last value at the
/// first one's place. Nothing where it is not JSON.
std::optional<nlohmann::ordered_json> parse_json(std::string_view text);

}  // namespace seekline
