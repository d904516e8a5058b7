#include "app/engram_tables.h"

#include <nlohmann/json.hpp>

#include "model/engram_hash.h"

namespace seekline {

void fit_engram_tables(nlohmann::json& config) {
  if (!config.contains("text_config") || !config["text_config"].contains("engram_layer_ids")) return;
  nlohmann::json& text = config["text_config"];
  const auto layers = text["engram_layer_ids"].get<std::vector<std::int64_t>>();
  const EngramLayout layout =
      engram_layout(layers, text.at("engram_max_ngram_size").get<int>(), text.at("engram_n_heads").get<int>(),
                    text.at("engram_vocab_size").get<std::int64_t>(),
                    text.at("engram_compressed_vocab_size").get<std::int64_t>());
  text["engram_num_embeddings"] = nlohmann::json::array();
  for (const EngramLayout::Layer& layer : layout.layers) text["engram_num_embeddings"].push_back(layer.rows);
}

}  // namespace seekline
