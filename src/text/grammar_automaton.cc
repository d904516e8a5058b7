#include "text/grammar_automaton.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>

#include "seekline/error.h"

namespace seekline::grammar {
namespace {

constexpr std::size_t kMaxStates = 1 << 20;

// Knuth's generalisation of Dijkstra's search: states are settled in the order of their shortest ways. A
// state that calls a value is reached when both the value and the state after it are settled.
class ShortestWays {
 public:
  ShortestWays(std::vector<State>& states, std::vector<Value>& values)
      : states_(states),
        values_(values),
        settled_(states.size(), false),
        into_(states.size()),
        starts_(states.size()),
        callers_(values.size()) {
    for (StateId s = 0; s < states.size(); ++s) list_predecessors(s);
    for (ValueId v = 0; v < values.size(); ++v)
      for (const Value::Start& start : values[v].starts) starts_[start.state].push_back(v);
  }

  void find() {
    for (StateId s = 0; s < states_.size(); ++s)
      if (states_[s].accepting) offer(s, 0, State::Step::kEnd, 0);
    while (!queue_.empty()) {
      const auto [bytes, s] = queue_.top();
      queue_.pop();
      if (!settled_[s]) settle(s);
    }
  }

 private:
  struct Into {
    StateId from;
    State::Step step;
    std::uint32_t edge;
  };

  void list_predecessors(StateId s) {
    const State& state = states_[s];
    for (std::uint32_t i = 0; i < state.edges.size(); ++i)
      into_[state.edges[i].target].push_back({s, State::Step::kByte, i});
    if (state.skip != kNone) into_[state.skip].push_back({s, State::Step::kSkip, 0});
    if (state.call == kNone) return;
    into_[state.after].push_back({s, State::Step::kCall, 0});
    callers_[state.call].push_back(s);
  }

  void offer(StateId s, std::uint32_t bytes, State::Step step, std::uint32_t edge) {
    State& state = states_[s];
    if (settled_[s] || bytes > kMaxShortest || bytes >= state.shortest) return;
    state.shortest = bytes;
    state.step = step;
    state.edge = edge;
    queue_.push({bytes, s});
  }

  void offer_call(StateId s) {
    const State& state = states_[s];
    const Value& value = values_[state.call];
    if (value.shortest == kNever || !settled_[state.after]) return;
    offer(s, value.shortest + states_[state.after].shortest, State::Step::kCall, 0);
  }

  std::uint32_t levels_of(const State& state) const {
    switch (state.step) {
      case State::Step::kEnd:
        return 0;
      case State::Step::kByte:
        return states_[state.edges[state.edge].target].levels;
      case State::Step::kSkip:
        return states_[state.skip].levels;
      case State::Step::kCall:
        return std::max(values_[state.call].levels, states_[state.after].levels);
    }
    return 0;
  }

  void settle(StateId s) {
    settled_[s] = true;
    State& state = states_[s];
    state.levels = levels_of(state);
    for (const Into& into : into_[s]) {
      if (into.step == State::Step::kCall)
        offer_call(into.from);
      else
        offer(into.from, state.shortest + (into.step == State::Step::kByte ? 1 : 0), into.step, into.edge);
    }
    for (const ValueId v : starts_[s]) {
      Value& value = values_[v];
      if (value.shortest != kNever) continue;
      value.shortest = state.shortest;
      while (value.starts[value.start].state != s) ++value.start;
      value.levels = state.levels + (value.starts[value.start].nests ? 1 : 0);
      for (const StateId caller : callers_[v]) offer_call(caller);
    }
  }

  std::vector<State>& states_;
  std::vector<Value>& values_;
  std::vector<bool> settled_;
  std::vector<std::vector<Into>> into_;        // [state] who comes here
  std::vector<std::vector<ValueId>> starts_;   // [state] values that begin here
  std::vector<std::vector<StateId>> callers_;  // [value]
  using Entry = std::pair<std::uint32_t, StateId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue_;
};

}  // namespace

StateId Automaton::add_state() {
  if (states_.size() == kMaxStates)
    throw Error(ErrorCode::kLimit,
                fmt::format("the schema needs more than {} states; it has to be smaller", kMaxStates));
  states_.emplace_back();
  return static_cast<StateId>(states_.size() - 1);
}

StateId Automaton::add_end() {
  const StateId state = add_state();
  states_[state].accepting = true;
  return state;
}

ValueId Automaton::add_value(std::vector<Value::Start> starts) {
  values_.emplace_back();
  values_.back().starts = std::move(starts);
  return static_cast<ValueId>(values_.size() - 1);
}

void Automaton::edge(StateId from, std::uint8_t first, std::uint8_t last, StateId to) {
  states_[from].edges.push_back({first, last, to});
}

void Automaton::edge(StateId from, char byte, StateId to) {
  edge(from, static_cast<std::uint8_t>(byte), static_cast<std::uint8_t>(byte), to);
}

void Automaton::call(StateId from, ValueId value, StateId after) {
  states_[from].call = value;
  states_[from].after = after;
}

void Automaton::literal(StateId from, std::string_view text, StateId to) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const StateId next = i + 1 == text.size() ? to : add_state();
    edge(from, text[i], next);
    need_byte(static_cast<std::uint8_t>(text[i]));
    from = next;
  }
}

void Automaton::measure() { ShortestWays(states_, values_).find(); }

}  // namespace seekline::grammar
