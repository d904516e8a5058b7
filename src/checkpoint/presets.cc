#include "checkpoint/presets.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "checkpoint/preset_configs.h"
#include "seekline/error.h"

namespace seekline {
namespace {

using nlohmann::json;

// The object that holds the language model's keys.
json& text_of(json& config) { return config.contains("text_config") ? config["text_config"] : config; }

std::int64_t integer_at(const json& object, const char* key, std::int64_t fallback) {
  const auto at = object.find(key);
  return at != object.end() && at->is_number_integer() ? at->get<std::int64_t>() : fallback;
}

void drop_ids_from(json& object, const char* key, std::int64_t layers) {
  const auto at = object.find(key);
  if (at == object.end() || !at->is_array()) return;
  json kept = json::array();
  for (const json& id : *at)
    if (id.is_number_integer() && id.get<std::int64_t>() < layers) kept.push_back(id);
  *at = kept;
}

void drop_drafts(json& text) {
  text["num_nextn_predict_layers"] = 0;
  for (const char* key : {"dspark_block_size", "dspark_noise_token_id", "dspark_target_layer_ids",
                          "dspark_markov_rank", "dspark_n_routed_experts", "dspark_num_experts_per_tok"})
    text.erase(key);
}

void cut_layers(json& text, std::int64_t layers) {
  const std::int64_t before = integer_at(text, "num_hidden_layers", 0);
  if (layers < 1 || layers > before)
    throw Error(ErrorCode::kUsage,
                fmt::format("the config has {} layers: it cannot be cut to {}", before, layers));
  text["num_hidden_layers"] = layers;
  if (text.contains("first_k_dense_replace"))
    text["first_k_dense_replace"] = std::min(layers, integer_at(text, "first_k_dense_replace", 0));
  if (text.contains("num_self_layers"))  // one layer at least goes on reading the memory
    text["num_self_layers"] = std::min(layers - 1, integer_at(text, "num_self_layers", 0));
  if (text.contains("num_hash_layers"))
    text["num_hash_layers"] = std::min(layers, integer_at(text, "num_hash_layers", 0));
  if (text.contains("engram_layer_ids") && text.contains("engram_num_embeddings")) {
    json rows = json::array();
    for (std::size_t i = 0; i < text["engram_layer_ids"].size() && i < text["engram_num_embeddings"].size();
         ++i)
      if (text["engram_layer_ids"][i].get<std::int64_t>() < layers)
        rows.push_back(text["engram_num_embeddings"][i]);
    text["engram_num_embeddings"] = rows;
  }
  for (const char* key : {"kv_source_layer_ids", "index_source_layer_ids", "engram_layer_ids"})
    drop_ids_from(text, key, layers);
  if (integer_at(text, "candidate_source_layer_id", -1) >= layers) text["candidate_source_layer_id"] = -1;

  bool drafts = true;
  if (text.contains("dspark_target_layer_ids")) {
    for (json& id : text["dspark_target_layer_ids"]) {
      id = id.get<std::int64_t>() - before + layers;
      drafts = drafts && id.get<std::int64_t>() >= 0;
    }
  }
  if (text.contains("compress_ratios")) {
    json& ratios = text["compress_ratios"];
    json kept = json::array();
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      const auto index = static_cast<std::int64_t>(i);
      if (index < layers || (drafts && index >= before)) kept.push_back(ratios[i]);
    }
    ratios = kept;
  }
  if (!drafts) drop_drafts(text);
}

void cut_experts(json& text, std::int64_t experts) {
  if (!text.contains("n_routed_experts"))
    throw Error(ErrorCode::kUsage, "the config has no routed experts whose number could be changed");
  text["n_routed_experts"] = experts;
  text["num_experts_per_tok"] = std::min(experts, integer_at(text, "num_experts_per_tok", 1));
  if (text.contains("dspark_n_routed_experts")) {
    const std::int64_t drafts = std::min(experts, integer_at(text, "dspark_n_routed_experts", experts));
    text["dspark_n_routed_experts"] = drafts;
    text["dspark_num_experts_per_tok"] = std::min(drafts, integer_at(text, "dspark_num_experts_per_tok", 1));
  }
  const std::int64_t groups = integer_at(text, "n_group", 1);
  const std::int64_t kept = integer_at(text, "topk_group", 1);
  const bool fits =
      groups <= 1 || (experts % groups == 0 && experts / groups >= 2 &&
                      experts / groups * kept >= text["num_experts_per_tok"].get<std::int64_t>());
  if (!fits) text["n_group"] = text["topk_group"] = 1;
}

void cut_vocab(json& config, std::int64_t vocab) {
  json& text = text_of(config);
  text["vocab_size"] = vocab;
  const auto clamp = [vocab](json& object, const char* key) {
    if (integer_at(object, key, -1) >= vocab) object[key] = vocab - 1;
  };
  for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id", "image_token_id"}) {
    clamp(config, key);
    clamp(text, key);
  }
  clamp(text, "engram_pad_token_id");
  clamp(text, "dspark_noise_token_id");
  if (integer_at(text, "engram_compressed_vocab_size", 0) > vocab)
    text["engram_compressed_vocab_size"] = vocab;
}

void set_key(json& config, const std::string& key, const std::string& text) {
  json value = json::parse(text, nullptr, false);
  if (value.is_discarded()) value = text;
  json* object = &config;
  const std::string first = key.substr(0, key.find('.'));
  if (!config.contains(first) && config.contains("text_config") && config["text_config"].contains(first))
    object = &config["text_config"];
  std::size_t begin = 0;
  for (std::size_t dot = key.find('.'); dot != std::string::npos; dot = key.find('.', begin)) {
    object = &(*object)[key.substr(begin, dot - begin)];
    if (object->is_null()) *object = json::object();
    if (!object->is_object())
      throw Error(ErrorCode::kUsage,
                  fmt::format("'{}' cannot be set: '{}' is not an object", key, key.substr(0, dot)));
    begin = dot + 1;
  }
  if (begin >= key.size()) throw Error(ErrorCode::kUsage, fmt::format("'{}' names no key", key));
  (*object)[key.substr(begin)] = std::move(value);
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> list = [] {
    std::vector<Preset> all;
    for (const PresetSource& source : preset_sources()) all.push_back({source.name, source.what});
    return all;
  }();
  return list;
}

json preset_config(const std::string& name) {
  std::string names;
  for (const PresetSource& source : preset_sources()) {
    if (name == source.name) {
      json config = json::parse(source.json);
      if (source.patch != nullptr) config.merge_patch(json::parse(source.patch));
      return config;
    }
    names += (names.empty() ? "" : ", ") + std::string(source.name);
  }
  throw Error(ErrorCode::kUsage, fmt::format("there is no preset '{}' (there are: {})", name, names));
}

void apply_overrides(json& config, const ConfigOverrides& overrides) {
  if (!config.is_object()) throw Error(ErrorCode::kUsage, "the config is not a JSON object");
  try {
    if (overrides.layers) cut_layers(text_of(config), *overrides.layers);
    if (overrides.experts) cut_experts(text_of(config), *overrides.experts);
    if (overrides.vocab) cut_vocab(config, *overrides.vocab);
    for (const auto& [key, value] : overrides.set) set_key(config, key, value);
  } catch (const json::exception& error) {  // a key of another type than any family has
    throw Error(ErrorCode::kUsage, fmt::format("the config cannot be changed like this ({})", error.what()));
  }
}

}  // namespace seekline
