#include "text/grammar_json.h"

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "text/grammar_utf8.h"

namespace seekline::grammar {
namespace {

// Texts that share their beginnings.
struct Trie {
  std::map<std::uint8_t, std::unique_ptr<Trie>> children;
  bool ends = false;

  void add(std::string_view text) {
    Trie* node = this;
    for (const char c : text) {
      auto& child = node->children[static_cast<std::uint8_t>(c)];
      if (!child) child = std::make_unique<Trie>();
      node = child.get();
    }
    node->ends = true;
  }
};

void add_texts(Automaton& a, const Trie& trie, StateId state) {
  std::vector<std::pair<const Trie*, StateId>> waiting{{&trie, state}};
  while (!waiting.empty()) {
    const auto [node, from] = waiting.back();
    waiting.pop_back();
    a[from].accepting = node->ends;
    for (const auto& [byte, child] : node->children) {
      const StateId to = a.add_state();
      a.edge(from, byte, byte, to);
      a.need_byte(byte);
      waiting.emplace_back(child.get(), to);
    }
  }
}

// All characters but the texts of a trie: follows it while it can, then goes on in `free`. `end` follows the
// closing quote.
struct OtherNames {
  Automaton& a;
  const Utf8States& free;
  StateId end;

  void leave(const Trie& node, StateId from, const Utf8Edge& edge) const {
    int first = edge.first;
    for (auto it = node.children.lower_bound(edge.first); it != node.children.end() && it->first <= edge.last;
         ++it) {
      if (it->first > first)
        a.edge(from, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(it->first - 1),
               at(free, edge.to));
      first = it->first + 1;
    }
    if (first <= edge.last) a.edge(from, static_cast<std::uint8_t>(first), edge.last, at(free, edge.to));
  }

  void add(const Trie& root, StateId start) const {
    struct Waiting {
      const Trie* node;
      StateId state;
      Utf8Place place;
    };
    std::vector<Waiting> waiting{{&root, start, Utf8Place::kBetween}};
    while (!waiting.empty()) {
      const Waiting w = waiting.back();
      waiting.pop_back();
      if (w.place == Utf8Place::kBetween && !w.node->ends) a.edge(w.state, '"', end);
      for (const Utf8Edge& edge : utf8_edges(w.place)) {
        leave(*w.node, w.state, edge);
        for (auto it = w.node->children.lower_bound(edge.first);
             it != w.node->children.end() && it->first <= edge.last; ++it) {
          const StateId to = a.add_state();
          a.edge(w.state, it->first, it->first, to);
          waiting.push_back({it->second.get(), to, edge.to});
        }
      }
    }
  }
};

}  // namespace

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

JsonParts::JsonParts(Automaton& automaton) : a_(automaton) {
  gap_ = make_gap();
  string_ = make_string();
  number_ = make_number(false);
  integer_ = make_number(true);
  any_object_ = a_.add_state();
  any_array_ = a_.add_state();
  any_ = a_.add_value({{string_, false},
                       {number_, false},
                       {one_of({"true", "false", "null"}), false},
                       {any_object_, true},
                       {any_array_, true}});
  build_object(any_object_, {}, any_);
  build_array(any_array_, any_);
}

ValueId JsonParts::make_gap() {
  const StateId start = a_.add_end();
  a_.edge(start, ' ', a_.add_end());
  StateId from = start;
  for (int blanks = -1; blanks < kMaxIndent; ++blanks) {
    const StateId to = a_.add_end();
    if (blanks < 0) {
      a_.edge(from, '\n', to);
    } else {
      a_.edge(from, ' ', to);
      a_.edge(from, '\t', to);
    }
    from = to;
  }
  return a_.add_value({{start, false}});
}

StateId JsonParts::hex_digits(int count, StateId to) {
  for (; count > 0; --count) {
    const StateId from = a_.add_state();
    a_.edge(from, '0', '9', to);
    a_.edge(from, 'A', 'F', to);
    a_.edge(from, 'a', 'f', to);
    to = from;
  }
  return to;
}

// \uD800 to \uDBFF only with their other half behind them, and that half nowhere else.
void JsonParts::add_escapes(StateId body) {
  const StateId escape = a_.add_state();
  a_.edge(body, '\\', escape);
  for (const char c : {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'}) a_.edge(escape, c, body);
  const StateId first = a_.add_state(), second = a_.add_state();
  a_.edge(escape, 'u', first);
  const StateId three = hex_digits(3, body), two = hex_digits(2, body);
  a_.edge(first, '0', '9', three);
  for (const char c : {'A', 'a'})
    a_.edge(first, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c + 2), three);
  for (const char c : {'E', 'e'})
    a_.edge(first, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c + 1), three);
  for (const char c : {'D', 'd'}) a_.edge(first, c, second);
  a_.edge(second, '0', '7', two);
  const StateId other_half = a_.add_state(), u = a_.add_state(), d = a_.add_state(), high = a_.add_state();
  const StateId rest = hex_digits(2, other_half);
  a_.edge(second, '8', '9', rest);
  for (const char c : {'A', 'a'})
    a_.edge(second, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c + 1), rest);
  a_.edge(other_half, '\\', u);
  a_.edge(u, 'u', d);
  for (const char c : {'D', 'd'}) a_.edge(d, c, high);
  for (const char c : {'C', 'c'})
    a_.edge(high, static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(c + 3), two);
}

StateId JsonParts::make_string() {
  const StateId start = a_.add_state();
  const StateId body = at(add_characters(a_), Utf8Place::kBetween);
  a_.edge(start, '"', body);
  a_.edge(body, '"', a_.add_end());
  add_escapes(body);
  return start;
}

StateId JsonParts::make_number(bool integer) {
  const StateId start = a_.add_state(), unsigned_start = a_.add_state();
  const StateId point = a_.add_state(), exponent = a_.add_state();
  const auto may_go_on = [&](StateId digit, bool fraction_follows) {
    a_[digit].accepting = true;
    if (integer) return;
    if (fraction_follows) a_.edge(digit, '.', point);
    a_.edge(digit, 'E', exponent);
    a_.edge(digit, 'e', exponent);
  };
  const auto digits = [&](StateId from, std::uint8_t first, int count, const auto& end_of_digit) {
    for (int i = 0; i < count; ++i) {
      const StateId to = a_.add_state();
      end_of_digit(to);
      a_.edge(from, i == 0 ? first : std::uint8_t{'0'}, '9', to);
      from = to;
    }
  };
  a_.edge(start, '-', unsigned_start);
  const StateId zero = a_.add_state();
  may_go_on(zero, true);
  for (const StateId from : {start, unsigned_start}) a_.edge(from, '0', zero);
  digits(unsigned_start, '1', kMaxIntegerDigits, [&](StateId s) { may_go_on(s, true); });
  a_[start].edges.push_back(a_[unsigned_start].edges.back());  // the first digit without a sign
  if (integer) return start;
  digits(point, '0', kMaxFractionDigits, [&](StateId s) { may_go_on(s, false); });
  const StateId after_sign = a_.add_state();
  for (const char sign : {'+', '-'}) a_.edge(exponent, sign, after_sign);
  digits(after_sign, '0', kMaxExponentDigits, [&](StateId s) { a_[s].accepting = true; });
  a_[exponent].edges.push_back(a_[after_sign].edges.front());
  return start;
}

StateId JsonParts::one_of(const std::vector<std::string>& texts) {
  Trie trie;
  for (const std::string& text : texts) trie.add(text);
  const StateId start = a_.add_state();
  add_texts(a_, trie, start);
  return start;
}

void JsonParts::build_array(StateId start, ValueId items) {
  const StateId open = a_.add_state(), first = a_.add_state(), close = a_.add_state(), end = a_.add_end();
  a_.edge(start, '[', open);
  a_.call(open, gap_, first);
  a_.edge(close, ']', end);
  a_.edge(first, ']', end);
  if (items == kNone) return;
  const StateId after_item = a_.add_state(), after_comma = a_.add_state(), item = a_.add_state();
  const StateId before_close = a_.add_state(), first_item = a_.add_state();
  a_[first].skip = first_item;
  a_.call(first_item, items, after_item);
  a_.edge(after_item, ',', after_comma);
  a_.call(after_comma, gap_, item);
  a_.call(item, items, after_item);
  a_[after_item].skip = before_close;
  a_.call(before_close, gap_, close);
}

StateId JsonParts::other_name(const std::vector<std::string>& names) {
  Trie trie;
  // A name that needs escapes cannot be written by mistake: these names have none.
  for (const std::string& name : names)
    if (quoted(name).size() == name.size() + 2) trie.add(name);
  const StateId start = a_.add_state(), root = a_.add_state(), end = a_.add_end();
  a_.edge(start, '"', root);
  const Utf8States free = add_characters(a_);
  a_.edge(at(free, Utf8Place::kBetween), '"', end);
  OtherNames{a_, free, end}.add(trie, root);
  return start;
}

StateId JsonParts::add_colon_and_value(ValueId value, StateId after) {
  const StateId colon = a_.add_state(), blank = a_.add_state(), here = a_.add_state();
  a_.edge(colon, ':', blank);
  a_.edge(blank, ' ', here);
  a_[blank].skip = here;
  a_.call(here, value, after);
  return colon;
}

void JsonParts::build_object(StateId start, const std::vector<Property>& properties, ValueId others) {
  const std::size_t n = properties.size();
  std::size_t may_close = n;  // from here on nothing is required
  while (may_close > 0 && !properties[may_close - 1].required) --may_close;
  const StateId open = a_.add_state(), first = a_.add_state(), end = a_.add_end();
  const StateId before_close = a_.add_state(), close = a_.add_state();
  a_.edge(start, '{', open);
  a_.call(open, gap_, first);
  a_.call(before_close, gap_, close);
  a_.edge(close, '}', end);
  std::vector<StateId> names(n + 1);  // [i]: property i or a later one comes
  for (StateId& name : names) name = a_.add_state();
  a_[first].skip = names[0];
  if (may_close == 0) a_.edge(first, '}', end);
  const auto after_value = [&](std::size_t next) {
    const StateId after = a_.add_state(), comma = a_.add_state();
    a_.edge(after, ',', comma);
    a_.call(comma, gap_, names[next]);
    if (next >= may_close) a_[after].skip = before_close;
    return after;
  };
  for (std::size_t i = 0; i < n; ++i) {
    if (!properties[i].required) a_[names[i]].skip = names[i + 1];
    if (properties[i].value == kNone) continue;
    a_.literal(names[i], quoted(properties[i].name),
               add_colon_and_value(properties[i].value, after_value(i + 1)));
  }
  if (others == kNone) return;
  std::vector<std::string> taken;
  for (const Property& property : properties) taken.push_back(property.name);
  const StateId name = taken.empty() ? string_ : other_name(taken);
  a_.call(names[n], a_.add_value({{name, false}}), add_colon_and_value(others, after_value(n)));
}

}  // namespace seekline::grammar
