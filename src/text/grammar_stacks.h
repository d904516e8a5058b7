// Running an automaton: all the ways in which a text so far can be read, as one number.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/grammar_automaton.h"

namespace seekline::grammar {

/// A way to read a text is a stack: the state it has reached, below it the states that go on after the values
/// around it. A place is the set of these ways; equal ones have equal numbers, so what is known about a place
/// (the next place for a byte, the mask) is found again each time the text comes back to it.
///
/// Only ways that can end in a value, within kMaxLevels, are ever kept. One thread at a time.
class Stacks {
 public:
  using PlaceId = std::uint32_t;
  static constexpr PlaceId kDead = 0;  ///< no way to read the text

  Stacks(const Automaton& automaton, ValueId root);

  PlaceId start() const { return start_; }
  PlaceId next(PlaceId place, std::uint8_t byte) {
    const std::uint32_t known = next_[place][byte];
    return known != kUnknown ? known : find_next(place, byte);
  }

  bool can_end(PlaceId place) const { return places_[place].can_end; }
  bool must_end(PlaceId place) const { return places_[place].tops.empty(); }
  /// Any text of characters that need no escape may follow.
  bool in_text(PlaceId place) const { return places_[place].in_text; }
  /// Bytes of completion().
  std::uint32_t shortest(PlaceId place) const { return places_[place].shortest; }
  /// A shortest text that ends the value; the first byte of a range where several are as short.
  std::string completion(PlaceId place) const;

  std::size_t places() const { return places_.size(); }
  /// Forgets all places but this one (start() too), and gives its new number.
  PlaceId keep_only(PlaceId place);

 private:
  static constexpr std::uint32_t kUnknown = 0xFFFFFFFF;
  using NodeId = std::uint32_t;
  struct Node {
    StateId state;
    NodeId below;            // kNone: the outermost value
    std::uint32_t levels;    // arrays and objects open here
    std::uint32_t shortest;  // bytes to the end of the outermost value
  };
  struct Place {
    std::vector<NodeId> tops;  // sorted; each has byte edges
    bool can_end = false;
    bool in_text = false;  // one of the states is in_text
    std::uint32_t shortest = 0;
    NodeId best = kNone;  // the top with the shortest completion; kNone: it is empty
  };
  struct Hash {
    std::size_t operator()(const std::vector<NodeId>& ids) const;
  };

  /// kNone where the state has no way to an end within the levels.
  NodeId node(StateId state, NodeId below, std::uint32_t levels);
  void spread(std::vector<NodeId>& waiting);
  void enter(NodeId from, ValueId value, StateId after, std::vector<NodeId>& waiting);
  PlaceId place_of_spread();
  PlaceId add_place();
  PlaceId find_next(PlaceId place, std::uint8_t byte);

  const Automaton& automaton_;
  PlaceId start_ = kDead;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, NodeId> node_ids_[2];  // [nests] (state, below)
  std::vector<Place> places_;
  std::vector<std::array<PlaceId, 256>> next_;  // [place][byte]; apart, for the walks that read little else
  std::unordered_map<std::vector<NodeId>, PlaceId, Hash> place_ids_;

  // Of spread(): the ways reached, and whether the outermost value may end.
  std::vector<NodeId> tops_;
  std::vector<NodeId> seen_;
  bool can_end_ = false;
};

}  // namespace seekline::grammar
