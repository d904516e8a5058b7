#include "text/split_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "seekline/error.h"
#include "text/unicode_classes.h"
#include "text/utf8.h"

namespace seekline {
namespace {

constexpr std::size_t kMaxPatternBytes = 8192;
constexpr std::size_t kMaxSets = 200;
constexpr int kMaxDepth = 50;
constexpr int kMaxRepeat = 1000;

CharSet to_set(std::span<const CharRange> ranges) { return CharSet({ranges.begin(), ranges.end()}); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// What one escape or literal stands for: a set, and its code point if it is just one character.
struct Item {
  CharSet set;
  std::optional<std::uint32_t> code_point;
};

Item item_of(std::uint32_t code_point) { return {CharSet::of(code_point), code_point}; }

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  SplitPattern parse() {
    if (pattern_.empty()) refuse("it is empty");
    if (pattern_.size() > kMaxPatternBytes) {
      refuse(fmt::format("it has {} bytes, over the limit of {}", pattern_.size(), kMaxPatternBytes));
    }
    alternatives(0, false);
    if (!at_end()) refuse("a ')' closes nothing");
    if (!syntax_.empty()) result_.parts.push_back({syntax_, -1});
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("regular expression {} cannot be used: {}", shown_pattern(pattern_), why));
  }

  bool at_end() const { return at_ == pattern_.size(); }
  char peek() const { return at_end() ? '\0' : pattern_[at_]; }
  bool take(std::string_view expected) {
    if (pattern_.substr(at_, expected.size()) != expected) return false;
    at_ += expected.size();
    return true;
  }

  std::uint32_t take_code_point() {
    if (at_end()) refuse("it ends too early");
    const Utf8Character character = first_character(pattern_.substr(at_));
    if (character.kind != Utf8Character::Kind::kValid) refuse("it is not valid UTF-8");
    at_ += character.bytes;
    return character.code_point;
  }

  void emit(CharSet set) {
    if (set.empty()) refuse("a character class holds no character");
    if (result_.sets.size() == kMaxSets) refuse(fmt::format("it has more than {} items", kMaxSets));
    result_.parts.push_back({std::move(syntax_), static_cast<int>(result_.sets.size())});
    syntax_.clear();
    result_.sets.push_back(std::move(set));
  }

  void alternatives(int depth, bool ignore_case) {
    if (depth > kMaxDepth) refuse(fmt::format("its groups are nested more than {} deep", kMaxDepth));
    std::uint32_t before = 0;  // the literal just before, where case is ignored
    while (!at_end() && peek() != ')') {
      if (take("|")) {
        syntax_ += '|';
        before = 0;
        continue;
      }
      const bool repeatable = element(depth, ignore_case, before);
      quantifier(repeatable);
    }
  }

  /// One item of a sequence. False for what a quantifier may not follow.
  bool element(int depth, bool ignore_case, std::uint32_t& before) {
    if (take("(")) {
      before = 0;
      return group(depth, ignore_case);
    }
    if (take("$")) {
      // Oniguruma's $ stands before every newline and at the end of the text.
      syntax_ += "(?!";
      emit(CharSet::of('\n').complement());
      syntax_ += ')';
      return false;
    }
    if (peek() == '^') refuse("'^' is not supported");
    if (std::string_view("*+?{").find(peek()) != std::string_view::npos)
      refuse("a quantifier has nothing to repeat");
    const bool is_class = peek() == '[';
    Item item = is_class ? Item{character_class(), std::nullopt} : literal();
    if (ignore_case) item = without_case(item, before);
    emit(std::move(item.set));
    return true;
  }

  bool group(int depth, bool ignore_case) {
    bool repeatable = true;
    if (take("?:") || (peek() != '?' && peek() != '*')) {
      syntax_ += "(?:";
    } else if (take("?i:")) {
      syntax_ += "(?:";
      ignore_case = true;
    } else if (take("?>")) {
      syntax_ += "(?>";
    } else if (take("?=")) {
      syntax_ += "(?=";
      repeatable = false;
    } else if (take("?!")) {
      syntax_ += "(?!";
      repeatable = false;
    } else {
      refuse("only the groups (...), (?:...), (?i:...), (?>...), (?=...) and (?!...) are supported");
    }
    alternatives(depth + 1, ignore_case);
    if (!take(")")) refuse("a group is not closed");
    syntax_ += ')';
    return repeatable;
  }

  void quantifier(bool repeatable) {
    const std::size_t start = at_;
    bool counted = false;
    if (take("{")) {
      counted = true;
      repeat_counts();
    } else if (!take("*") && !take("+") && !take("?")) {
      return;
    }
    if (!repeatable) refuse("a quantifier follows something that matches no characters");
    // Oniguruma reads {n,m}+ and {n}? otherwise than PCRE2 does.
    if (peek() == '?' || peek() == '+') {
      if (counted) refuse("'}' is followed by '?' or '+'");
      ++at_;
    }
    syntax_ += pattern_.substr(start, at_ - start);
    if (std::string_view("*+?{").find(peek()) != std::string_view::npos && !at_end()) {
      refuse("one quantifier follows another");
    }
  }

  void repeat_counts() {
    const int low = repeat_count();
    int high = low;
    if (take(",") && peek() != '}') high = repeat_count();
    if (!take("}") || high < low) refuse("'{' does not begin {n}, {n,} or {n,m}");
  }

  int repeat_count() {
    if (!is_digit(peek())) refuse("'{' does not begin {n}, {n,} or {n,m}");
    int count = 0;
    while (is_digit(peek())) {
      count = count * 10 + (pattern_[at_++] - '0');
      if (count > kMaxRepeat) refuse(fmt::format("it repeats something more than {} times", kMaxRepeat));
    }
    return count;
  }

  Item literal() {
    if (take("\\")) return escape();
    if (take(".")) return {CharSet::of('\n').complement(), std::nullopt};
    return item_of(take_code_point());
  }

  Item escape() {
    const std::uint32_t letter = take_code_point();
    switch (letter) {
      case 'p':
        return {property(), std::nullopt};
      case 'P':
        return {property().complement(), std::nullopt};
      case 's':
        return {to_set(unicode::kSpace), std::nullopt};
      case 'S':
        return {to_set(unicode::kSpace).complement(), std::nullopt};
      case 'n':
        return item_of('\n');
      case 'r':
        return item_of('\r');
      case 't':
        return item_of('\t');
      case 'f':
        return item_of('\f');
      case 'u':
        return item_of(hexadecimal(4));
      case 'x':
        if (take("{")) {
          const Item item = item_of(hexadecimal(0));
          if (!take("}")) refuse("'\\x{' is not closed");
          return item;
        }
        return item_of(ascii_byte());
      default:
        break;
    }
    if (letter >= 0x80 || is_letter(static_cast<char>(letter)) || is_digit(static_cast<char>(letter))) {
      std::string name = "\\";
      append_utf8(letter, name);
      refuse(fmt::format("the escape {} is not supported", name));
    }
    return item_of(letter);
  }

  CharSet property() {
    if (take("{L}")) return to_set(unicode::kLetter);
    if (take("{M}")) return to_set(unicode::kMark);
    if (take("{N}")) return to_set(unicode::kNumber);
    if (take("{P}")) return to_set(unicode::kPunctuation);
    if (take("{S}")) return to_set(unicode::kSymbol);
    refuse("of the Unicode properties only L, M, N, P and S are supported");
  }

  /// `digits` hexadecimal digits, or as many as there are for 0.
  std::uint32_t hexadecimal(std::size_t digits) {
    std::uint32_t value = 0;
    std::size_t count = 0;
    while (digits == 0 || count < digits) {
      const char c = peek();
      const bool lower = c >= 'a' && c <= 'f', upper = c >= 'A' && c <= 'F';
      if (!is_digit(c) && !lower && !upper) break;
      value = value * 16 + static_cast<std::uint32_t>(is_digit(c) ? c - '0'
                                                      : lower     ? c - 'a' + 10
                                                                  : c - 'A' + 10);
      if (value > kLastCodePoint) refuse("a code point is above 10FFFF");
      ++at_;
      ++count;
    }
    if (count == 0 || count < digits) refuse("a hexadecimal escape is cut short");
    return value;
  }

  std::uint32_t ascii_byte() {
    const std::uint32_t value = hexadecimal(2);
    if (value >= 0x80) refuse("\\x above 7F is a byte, not a character");
    return value;
  }

  CharSet character_class() {
    take("[");
    const bool negated = take("^");
    if (peek() == ']') refuse("a character class is empty or begins with ']'");
    std::vector<CharRange> ranges;
    while (!take("]")) {
      if (at_end()) refuse("a character class is not closed");
      if (peek() == '[') refuse("a character class holds '[' without a backslash");
      if (pattern_.substr(at_, 2) == "&&") refuse("a character class holds '&&'");
      const Item low = class_item();
      if (peek() != '-' || pattern_.substr(at_, 2) == "-]") {
        ranges.insert(ranges.end(), low.set.ranges().begin(), low.set.ranges().end());
        continue;
      }
      take("-");
      if (at_end() || peek() == '[') refuse("a range in a character class has no end");
      const Item high = class_item();
      if (!low.code_point || !high.code_point || *low.code_point > *high.code_point) {
        refuse("a range in a character class is not between two characters in order");
      }
      ranges.push_back({*low.code_point, *high.code_point});
    }
    CharSet set{std::move(ranges)};
    return negated ? set.complement() : set;
  }

  Item class_item() { return take("\\") ? escape() : item_of(take_code_point()); }

  /// A literal where case is ignored. Only ASCII is understood, and no pair that folds to one character of
  /// its own.
  Item without_case(const Item& item, std::uint32_t& before) const {
    if (!item.code_point || *item.code_point >= 0x80)
      refuse("(?i:...) holds something other than ASCII characters");
    const auto c = static_cast<char>(*item.code_point);
    if (!is_letter(c)) {
      before = 0;
      return item;
    }
    const auto lower = static_cast<std::uint32_t>(c | 0x20);
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (before == static_cast<std::uint32_t>(pair[0]) && lower == static_cast<std::uint32_t>(pair[1])) {
        refuse(fmt::format("(?i:...) holds '{}', which also matches a ligature", pair));
      }
    }
    before = lower;
    std::vector<CharRange> ranges{{lower, lower}, {lower - 0x20, lower - 0x20}};
    if (lower == 's') ranges.push_back({0x17F, 0x17F});    // long s
    if (lower == 'k') ranges.push_back({0x212A, 0x212A});  // Kelvin sign
    return {CharSet(std::move(ranges)), item.code_point};
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  std::string syntax_;
  SplitPattern result_;
};

}  // namespace

std::string shown_pattern(std::string_view pattern) {
  constexpr std::size_t kShown = 60;
  std::string shown = "'";
  for (const char c : pattern.substr(0, kShown)) {
    const auto byte = static_cast<std::uint8_t>(c);
    if (byte < 0x20 || byte >= 0x7F) {
      shown += fmt::format("\\x{:02X}", byte);
    } else {
      shown += c;
    }
  }
  return shown + (pattern.size() > kShown ? "...'" : "'");
}

SplitPattern parse_split_pattern(std::string_view pattern) { return Parser(pattern).parse(); }

}  // namespace seekline
