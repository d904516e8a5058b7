#include "text/chat_python_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace seekline {
namespace {

using Json = nlohmann::ordered_json;

/// The depth at which the vendor's parser gives up, too.
constexpr int kMaxDepth = 127;

bool deeper_than_allowed(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

bool within_depth(const Json& value, int levels) {
  if (!value.is_structured()) return true;
  return levels > 0 && std::all_of(value.begin(), value.end(),
                                   [&](const Json& inner) { return within_depth(inner, levels - 1); });
}

void append_string(std::string_view text, std::string& out) {
  out += '"';
  append_json_escaped(text, out);
  out += '"';
}

void append_value(const Json& value, std::string& out) {
  if (value.is_object()) {
    out += '{';
    bool first = true;
    for (const auto& [key, member] : value.items()) {
      if (!first) out += ", ";
      first = false;
      append_string(key, out);
      out += ": ";
      append_value(member, out);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (i > 0) out += ", ";
      append_value(value[i], out);
    }
    out += ']';
  } else if (value.is_string()) {
    append_string(value.get_ref<const std::string&>(), out);
  } else if (value.is_number_float()) {
    out += python_float(value.get<double>());
  } else {
    out += value.dump();  // null, true, false, integers
  }
}

}  // namespace

void append_json_escaped(std::string_view text, std::string& out) {
  static constexpr char kHex[] = "0123456789abcdef";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out += "\\u00";
          out += kHex[static_cast<unsigned char>(c) >> 4];
          out += kHex[static_cast<unsigned char>(c) & 0xF];
        } else {
          out += c;
        }
    }
  }
}

std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  std::array<char, 32> buffer{};
  const auto written =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<std::size_t>(written.ptr - buffer.data()));
  // "-d.ddde±xx" into sign, digits, and the place of the decimal point counted from the first digit
  const std::size_t e = shortest.find('e');
  std::string digits;
  for (const char c : shortest.substr(0, e))
    if (c != '-' && c != '.') digits += c;
  int exponent = 0;
  const char* exponent_text = shortest.data() + e + 1;
  std::from_chars(exponent_text + (*exponent_text == '+' ? 1 : 0), shortest.data() + shortest.size(),
                  exponent);
  const int point = exponent + 1;
  const int count = static_cast<int>(digits.size());

  std::string text = std::signbit(value) ? "-" : "";
  if (point > 16 || point < -3) {
    text += digits[0];
    if (count > 1) text += "." + digits.substr(1);
    const std::string magnitude = std::to_string(std::abs(exponent));
    text += exponent < 0 ? "e-" : "e+";
    if (magnitude.size() < 2) text += '0';
    return text + magnitude;
  }
  if (point <= 0) return text + "0." + std::string(static_cast<std::size_t>(-point), '0') + digits;
  if (point >= count) return text + digits + std::string(static_cast<std::size_t>(point - count), '0') + ".0";
  const auto split = static_cast<std::size_t>(point);
  return text + digits.substr(0, split) + "." + digits.substr(split);
}

std::string python_json(const Json& value) {
  std::string out;
  append_value(value, out);
  return out;
}

std::string shown(const Json& value) {
  constexpr std::size_t kMost = 80;
  const std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return text.size() <= kMost ? text : text.substr(0, kMost - 3) + "...";
}

bool is_shallow(const Json& value) { return within_depth(value, kMaxDepth); }

std::optional<Json> parse_json(std::string_view text) {
  // The library skips a byte order mark; JSON has none.
  if (text.substr(0, 3) == "\xEF\xBB\xBF" || deeper_than_allowed(text)) return std::nullopt;
  Json value = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return std::nullopt;
  return value;
}

}  // namespace seekline
