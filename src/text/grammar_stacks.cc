#include "text/grammar_stacks.h"

#include <algorithm>

#include "core/check.h"

namespace seekline::grammar {

std::size_t Stacks::Hash::operator()(const std::vector<NodeId>& ids) const {
  std::size_t hash = ids.size();
  for (const NodeId id : ids) hash = (hash ^ id) * 0x9E3779B97F4A7C15u + (hash >> 29);
  return hash;
}

Stacks::Stacks(const Automaton& automaton, ValueId root) : automaton_(automaton) {
  add_place();
  next_[kDead].fill(kDead);
  std::vector<NodeId> waiting;
  for (const Value::Start& start : automaton.value(root).starts)
    waiting.push_back(node(start.state, kNone, start.nests ? 1 : 0));
  spread(waiting);
  start_ = place_of_spread();
}

Stacks::NodeId Stacks::node(StateId state, NodeId below, std::uint32_t levels) {
  const State& s = automaton_[state];
  if (s.shortest == kNever || levels + s.levels > kMaxLevels) return kNone;
  const bool nests = levels > (below == kNone ? 0 : nodes_[below].levels);
  const std::uint64_t key = std::uint64_t{below} << 32 | state;
  const auto [it, is_new] = node_ids_[nests ? 1 : 0].try_emplace(key, static_cast<NodeId>(nodes_.size()));
  if (is_new)
    nodes_.push_back({state, below, levels, s.shortest + (below == kNone ? 0 : nodes_[below].shortest)});
  return it->second;
}

// A state is pushed for what follows the value; it keeps the levels of the value it belongs to.
void Stacks::enter(NodeId from, ValueId value, StateId after, std::vector<NodeId>& waiting) {
  const Node here = nodes_[from];
  const NodeId below = node(after, here.below, here.levels);
  if (below == kNone) return;
  for (const Value::Start& start : automaton_.value(value).starts)
    waiting.push_back(node(start.state, below, here.levels + (start.nests ? 1 : 0)));
}

// Follows everything that needs no byte.
void Stacks::spread(std::vector<NodeId>& waiting) {
  tops_.clear();
  seen_.clear();
  can_end_ = false;
  while (!waiting.empty()) {
    const NodeId id = waiting.back();
    waiting.pop_back();
    if (id == kNone) continue;
    if (std::find(seen_.begin(), seen_.end(), id) != seen_.end()) continue;
    seen_.push_back(id);
    const Node here = nodes_[id];
    const State& state = automaton_[here.state];
    if (!state.edges.empty()) tops_.push_back(id);
    if (state.skip != kNone) waiting.push_back(node(state.skip, here.below, here.levels));
    if (state.call != kNone) enter(id, state.call, state.after, waiting);
    if (!state.accepting) continue;
    if (here.below == kNone) {
      can_end_ = true;
    } else {
      waiting.push_back(here.below);
    }
  }
  std::sort(tops_.begin(), tops_.end());
}

Stacks::PlaceId Stacks::add_place() {
  places_.emplace_back();
  next_.emplace_back().fill(kUnknown);
  return static_cast<PlaceId>(places_.size() - 1);
}

Stacks::PlaceId Stacks::place_of_spread() {
  if (tops_.empty() && !can_end_) return kDead;
  std::vector<NodeId> key = tops_;
  key.push_back(can_end_ ? 1 : 0);
  const auto [it, is_new] = place_ids_.try_emplace(std::move(key), static_cast<PlaceId>(places_.size()));
  if (!is_new) return it->second;
  Place& place = places_[add_place()];
  place.tops = tops_;
  place.can_end = can_end_;
  place.in_text = std::any_of(tops_.begin(), tops_.end(),
                              [&](NodeId top) { return automaton_[nodes_[top].state].in_text; });
  if (can_end_) return it->second;
  place.shortest = kNever;
  for (const NodeId top : tops_) {
    if (nodes_[top].shortest >= place.shortest) continue;
    place.shortest = nodes_[top].shortest;
    place.best = top;
  }
  return it->second;
}

Stacks::PlaceId Stacks::find_next(PlaceId place, std::uint8_t byte) {
  std::vector<NodeId> waiting;
  for (const NodeId top : places_[place].tops) {
    const Node here = nodes_[top];
    for (const ByteEdge& edge : automaton_[here.state].edges)
      if (edge.first <= byte && byte <= edge.last)
        waiting.push_back(node(edge.target, here.below, here.levels));
  }
  spread(waiting);
  const PlaceId found = place_of_spread();
  return next_[place][byte] = found;
}

std::string Stacks::completion(PlaceId place) const {
  std::string text;
  if (places_[place].best == kNone) return text;
  // States that go on, innermost last.
  std::vector<StateId> rest;
  for (NodeId id = places_[place].best; id != kNone; id = nodes_[id].below)
    rest.insert(rest.begin(), nodes_[id].state);
  while (!rest.empty()) {
    const State& state = automaton_[rest.back()];
    switch (state.step) {
      case State::Step::kEnd:
        rest.pop_back();
        break;
      case State::Step::kSkip:
        rest.back() = state.skip;
        break;
      case State::Step::kByte:
        text += static_cast<char>(state.edges[state.edge].first);
        rest.back() = state.edges[state.edge].target;
        break;
      case State::Step::kCall: {
        const Value& value = automaton_.value(state.call);
        rest.back() = state.after;
        rest.push_back(value.starts[value.start].state);
        break;
      }
    }
  }
  return text;
}

Stacks::PlaceId Stacks::keep_only(PlaceId place) {
  SEEKLINE_CHECK(place != kDead, "a text that cannot be read has no place to keep");
  const std::vector<Node> old = std::move(nodes_);
  const std::vector<NodeId> tops = places_[place].tops;
  const bool can_end = places_[place].can_end;
  nodes_.clear();
  node_ids_[0].clear();
  node_ids_[1].clear();
  place_ids_.clear();
  places_.resize(1);
  next_.resize(1);
  tops_.clear();
  for (const NodeId top : tops) {
    std::vector<NodeId> way;
    for (NodeId id = top; id != kNone; id = old[id].below) way.push_back(id);
    NodeId below = kNone;
    for (auto it = way.rbegin(); it != way.rend(); ++it) below = node(old[*it].state, below, old[*it].levels);
    tops_.push_back(below);
  }
  std::sort(tops_.begin(), tops_.end());
  can_end_ = can_end;
  start_ = kDead;
  return place_of_spread();
}

}  // namespace seekline::grammar
