#include "text/grammar.h"

#include <utility>

#include "text/grammar_json.h"
#include "text/grammar_schema.h"
#include "text/grammar_stacks.h"

namespace seekline {

Grammar::Grammar(std::shared_ptr<const grammar::Automaton> automaton, std::uint32_t root)
    : automaton_(std::move(automaton)), root_(root) {}

Grammar Grammar::json_object() {
  const auto automaton = std::make_shared<grammar::Automaton>();
  const grammar::JsonParts parts(*automaton);
  const grammar::ValueId root = automaton->add_value({{parts.any_object(), true}});
  automaton->measure();
  return {automaton, root};
}

Grammar Grammar::from_json_schema(const nlohmann::ordered_json& schema) {
  const auto automaton = std::make_shared<grammar::Automaton>();
  const grammar::ValueId root = grammar::add_schema(*automaton, schema);
  return {automaton, root};
}

std::string Grammar::shortest() const {
  const grammar::Stacks stacks(*automaton_, root_);
  return stacks.completion(stacks.start());
}

}  // namespace seekline
