#include "text/grammar_schema.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <cmath>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "seekline/error.h"
#include "text/chat_python_json.h"
#include "text/grammar_json.h"
#include "text/schema_place.h"

namespace seekline::grammar {
namespace {

using Json = nlohmann::ordered_json;

enum Type : std::size_t { kNull, kBoolean, kInteger, kNumber, kString, kArray, kObject, kTypes };
constexpr std::string_view kTypeNames[kTypes] = {"null",   "boolean", "integer", "number",
                                                 "string", "array",   "object"};
using TypeSet = std::bitset<kTypes>;

constexpr int kMaxReferences = 100;  // $ref and anyOf inside each other before a value begins

bool is_whole(const Json& value) {
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

bool is_of(const Json& value, const TypeSet& types) {
  switch (value.type()) {
    case Json::value_t::null:
      return types[kNull];
    case Json::value_t::boolean:
      return types[kBoolean];
    case Json::value_t::string:
      return types[kString];
    case Json::value_t::array:
      return types[kArray];
    case Json::value_t::object:
      return types[kObject];
    default:
      return types[kNumber] || (types[kInteger] && is_whole(value));
  }
}

Type type_of(const SchemaPlace& place) {
  if (place.json->is_string())
    for (std::size_t t = 0; t < kTypes; ++t)
      if (*place.json == std::string(kTypeNames[t])) return static_cast<Type>(t);
  place.wrong(fmt::format("is {}; a type is one of {}", shown(*place.json), fmt::join(kTypeNames, ", ")));
}

TypeSet types_of(const SchemaPlace& schema) {
  TypeSet types;
  if (!schema.has("type")) return types.set();
  const SchemaPlace type = schema.member("type");
  if (!type.json->is_array()) return types.set(type_of(type));
  if (type.json->empty()) type.wrong("is an empty list; it must name at least one type");
  for (std::size_t i = 0; i < type.json->size(); ++i) types.set(type_of(type.element(i)));
  return types;
}

std::string text_of(const Json& value, const SchemaPlace& place) {
  try {
    return value.dump();
  } catch (const Json::exception&) {
    place.wrong("holds a string that is not UTF-8");
  }
}

class SchemaReader {
 public:
  SchemaReader(Automaton& automaton, const Json& schema) : a_(automaton), parts_(automaton) {
    root_.json = &schema;
  }

  ValueId read() {
    const ValueId root = value_of(root_);
    while (!waiting_.empty()) {
      const Waiting next = std::move(waiting_.back());
      waiting_.pop_back();
      switch (next.kind) {
        case Waiting::kValue:
          build_value(next.id, next.schema);
          break;
        case Waiting::kObject:
          build_object(next.id, next.schema);
          break;
        case Waiting::kArray:
          build_array(next.id, next.schema);
          break;
      }
    }
    return root;
  }

 private:
  // What is allocated and not filled yet; a list, so that deep schemas do not need a deep call stack.
  struct Waiting {
    enum Kind { kValue, kObject, kArray } kind;
    std::uint32_t id;  // a value or the first state
    SchemaPlace schema;
  };

  // The alternatives of one value while they are gathered.
  struct Alternatives {
    std::vector<Value::Start> starts;
    std::unordered_map<const Json*, bool> seen;  // true: being gathered just now
    int depth = 0;

    void add(StateId state, bool nests) {
      const auto same = [state](const Value::Start& start) { return start.state == state; };
      if (std::none_of(starts.begin(), starts.end(), same)) starts.push_back({state, nests});
    }
  };

  ValueId value_of(const SchemaPlace& schema) {
    if (schema.json->is_boolean()) return schema.json->get<bool>() ? parts_.any() : kNone;
    const auto [it, is_new] = values_.try_emplace(schema.json, kNone);
    if (is_new) {
      it->second = a_.add_value();
      waiting_.push_back({Waiting::kValue, it->second, schema});
    }
    return it->second;
  }

  // The first state of an object or array schema, which is filled later.
  StateId start_of(const SchemaPlace& schema, Waiting::Kind kind) {
    auto& starts = kind == Waiting::kObject ? objects_ : arrays_;
    const auto [it, is_new] = starts.try_emplace(schema.json, kNone);
    if (is_new) {
      it->second = a_.add_state();
      waiting_.push_back({kind, it->second, schema});
    }
    return it->second;
  }

  void build_value(ValueId value, const SchemaPlace& schema) {
    Alternatives found;
    gather(schema, found);
    a_.value(value).starts = std::move(found.starts);
  }

  void gather(const SchemaPlace& schema, Alternatives& found) {
    const auto [it, is_new] = found.seen.try_emplace(schema.json, true);
    if (!is_new) {
      if (it->second) schema.wrong("leads back to itself through $ref and anyOf alone, so it says nothing");
      return;  // the same alternatives once more
    }
    if (++found.depth > kMaxReferences)
      throw Error(ErrorCode::kLimit,
                  fmt::format("{} lies behind more than {} $ref and anyOf inside each other", schema.path,
                              kMaxReferences));
    gather_new(schema, found);
    --found.depth;
    found.seen[schema.json] = false;
  }

  void gather_new(const SchemaPlace& schema, Alternatives& found) {
    if (schema.json->is_boolean()) {
      if (schema.json->get<bool>()) add_types(schema, TypeSet().set(), found);
      return;
    }
    if (!schema.json->is_object())
      schema.wrong(fmt::format("is {}; a schema is an object, true or false", shown(*schema.json)));
    check_keywords(schema, schema.json == root_.json);
    if (schema.has("$ref")) {
      check_alone(schema, "$ref", {});
      gather(resolve(root_, schema.member("$ref")), found);
    } else if (schema.has("anyOf")) {
      check_alone(schema, "anyOf", {});
      const SchemaPlace list = schema.member("anyOf");
      if (!list.json->is_array() || list.json->empty())
        list.wrong(fmt::format("is {}; it must be a list of schemas", shown(*list.json)));
      for (std::size_t i = 0; i < list.json->size(); ++i) gather(list.element(i), found);
    } else if (schema.has("enum") || schema.has("const")) {
      found.add(literals_of(schema), false);
    } else {
      add_types(schema, types_of(schema), found);
    }
  }

  void add_types(const SchemaPlace& schema, const TypeSet& types, Alternatives& found) {
    if (types[kNumber]) {
      found.add(parts_.number(), false);
    } else if (types[kInteger]) {
      found.add(parts_.integer(), false);
    }
    if (types[kString]) found.add(parts_.string(), false);
    if (types[kNull]) found.add(word("null"), false);
    if (types[kBoolean])
      for (const char* text : {"true", "false"}) found.add(word(text), false);
    const bool open_object =
        !schema.has("properties") && !schema.has("required") && !schema.has("additionalProperties");
    if (types[kObject])
      found.add(open_object ? parts_.any_object() : start_of(schema, Waiting::kObject), true);
    if (types[kArray])
      found.add(schema.has("items") ? start_of(schema, Waiting::kArray) : parts_.any_array(), true);
  }

  StateId word(const std::string& text) {
    const auto [it, is_new] = words_.try_emplace(text, kNone);
    if (is_new) it->second = parts_.one_of({text});
    return it->second;
  }

  StateId literals_of(const SchemaPlace& schema) {
    const auto [it, is_new] = literals_.try_emplace(schema.json, kNone);
    if (!is_new) return it->second;
    check_alone(schema, schema.has("enum") ? "enum" : "const", {"enum", "const", "type"});
    std::vector<SchemaPlace> values;
    if (schema.has("enum")) {
      const SchemaPlace list = schema.member("enum");
      if (!list.json->is_array() || list.json->empty())
        list.wrong(fmt::format("is {}; it must be a list of values", shown(*list.json)));
      for (std::size_t i = 0; i < list.json->size(); ++i) values.push_back(list.element(i));
    } else {
      values.push_back(schema.member("const"));
    }
    const TypeSet types = types_of(schema);
    std::vector<std::string> texts;
    for (const SchemaPlace& value : values) {
      if (!is_of(*value.json, types)) continue;
      if (schema.has("const") && *value.json != schema.json->at("const")) continue;
      texts.push_back(text_of(*value.json, value));
    }
    if (texts.empty()) schema.wrong("allows no value: none of its enum or const fits the rest of it");
    return literals_[schema.json] = parts_.one_of(texts);
  }

  void build_object(StateId start, const SchemaPlace& schema) {
    std::vector<Property> properties;
    std::map<std::string, std::size_t> places;
    if (schema.has("properties")) {
      const SchemaPlace list = schema.member("properties");
      if (!list.json->is_object()) list.wrong(fmt::format("is {}; it must be an object", shown(*list.json)));
      for (const auto& [name, property] : list.json->items()) {
        text_of(name, list);
        places[name] = properties.size();
        properties.push_back({name, false, value_of(list.member(name))});
      }
    }
    // Without the keyword anything may follow, but a model that has a list of properties is held to it.
    const bool is_open = !schema.has("additionalProperties");
    const ValueId undeclared = is_open ? parts_.any() : value_of(schema.member("additionalProperties"));
    const ValueId others = is_open && schema.has("properties") ? kNone : undeclared;
    for (const std::string& name : required_of(schema)) {
      const auto [it, is_new] = places.try_emplace(name, properties.size());
      if (is_new) properties.push_back({name, false, undeclared});
      properties[it->second].required = true;
    }
    parts_.build_object(start, properties, others);
  }

  static std::vector<std::string> required_of(const SchemaPlace& schema) {
    if (!schema.has("required")) return {};
    const SchemaPlace list = schema.member("required");
    const auto is_name = [](const Json& name) { return name.is_string(); };
    if (!list.json->is_array() || !std::all_of(list.json->begin(), list.json->end(), is_name))
      list.wrong(fmt::format("is {}; it must be a list of property names", shown(*list.json)));
    for (const Json& name : *list.json) text_of(name, list);
    return list.json->get<std::vector<std::string>>();
  }

  void build_array(StateId start, const SchemaPlace& schema) {
    const SchemaPlace items = schema.member("items");
    if (items.json->is_array())
      items.unsupported("is a list; constrained decoding supports one schema for all items");
    parts_.build_array(start, value_of(items));
  }

  Automaton& a_;
  JsonParts parts_;
  SchemaPlace root_;
  std::unordered_map<const Json*, ValueId> values_;
  std::unordered_map<const Json*, StateId> objects_, arrays_, literals_;
  std::map<std::string, StateId> words_;
  std::vector<Waiting> waiting_;
};

}  // namespace

ValueId add_schema(Automaton& automaton, const Json& schema) {
  // A boolean has no value of its own to read: {"anyOf": [b]} is the same.
  const Json whole = schema.is_boolean() ? Json{{"anyOf", Json::array({schema})}} : Json();
  const ValueId root = SchemaReader(automaton, schema.is_boolean() ? whole : schema).read();
  automaton.measure();
  const Value& value = automaton.value(root);
  if (value.shortest == kNever)
    throw Error(ErrorCode::kUsage,
                fmt::format("schema allows no JSON value of at most {} bytes", kMaxShortest));
  if (value.levels > kMaxLevels)
    throw Error(ErrorCode::kLimit,
                fmt::format("schema asks for {} levels of arrays and objects; at most {} are supported",
                            value.levels, kMaxLevels));
  return root;
}

}  // namespace seekline::grammar
