#include "checkpoint/deepseek_v41_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace seekline {
namespace {

using Ids = std::vector<std::int64_t>;

constexpr std::int64_t kQuantum = 32;  // channels that share a scale: fp8 inputs, fp4 rows and weights

bool contains(const Ids& ids, std::int64_t id) { return std::binary_search(ids.begin(), ids.end(), id); }

bool ascending(const Ids& ids) {
  return std::adjacent_find(ids.begin(), ids.end(), [](auto a, auto b) { return a >= b; }) == ids.end();
}

void check_sizes(ConfigReader& root, const V41Config& c) {
  const auto multiple = [&](const char* what, std::int64_t value) {
    if (value % kQuantum != 0)
      root.problem(
          fmt::format("text_config.{} is {}, expected a multiple of {}, the width of a quantizer block", what,
                      value, kQuantum));
  };
  multiple("hidden_size", c.hidden_size);
  multiple("moe_intermediate_size", c.moe_intermediate_size);
  multiple("head_dim", c.head_dim);
  multiple("q_lora_rank", c.q_lora_rank);
  multiple("o_lora_rank", c.o_lora_rank);
  multiple("index_head_dim", c.index_head_dim);
  multiple("engram_head_dim", c.engram_head_dim);
  const auto fits = [&](const char* what, std::int64_t rope, std::int64_t width) {
    if (rope % 2 != 0 || rope > width)
      root.problem(fmt::format("text_config.qk_rope_head_dim is {}, expected an even number up to {} = {}",
                               rope, what, width));
  };
  fits("head_dim", c.qk_rope_head_dim, c.head_dim);
  if (c.index_head_dim > 0) fits("index_head_dim", c.qk_rope_head_dim, c.index_head_dim);
  if (c.num_attention_heads % c.o_groups != 0)
    root.problem(fmt::format("text_config.num_attention_heads is {}, which o_groups = {} does not divide",
                             c.num_attention_heads, c.o_groups));
  if (c.num_experts_per_tok > c.n_routed_experts)
    root.problem(fmt::format("text_config.num_experts_per_tok is {}, more than n_routed_experts = {}",
                             c.num_experts_per_tok, c.n_routed_experts));
  for (const std::int64_t id : c.eos_token_ids)
    if (id >= c.vocab_size)
      root.problem(fmt::format("eos_token_id is {}, but vocab_size is {}", id, c.vocab_size));
  if (c.bos_token_id >= c.vocab_size)
    root.problem(fmt::format("bos_token_id is {}, but vocab_size is {}", c.bos_token_id, c.vocab_size));
  if (c.image_token_id >= c.vocab_size)
    root.problem(fmt::format("image_token_id is {}, but vocab_size is {}", c.image_token_id, c.vocab_size));
  if (c.has_vision && c.vision.hidden_size % c.vision.num_attention_heads != 0)
    root.problem(
        fmt::format("vision_config.hidden_size is {}, which num_attention_heads = {} does not divide",
                    c.vision.hidden_size, c.vision.num_attention_heads));
}

// Cuts the entries of draft stages off after looking at them.
void check_ratios(ConfigReader& root, V41Config& c) {
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (c.compress_ratios.size() < layers)
    return root.problem(fmt::format("text_config.compress_ratios has {} entries for {} layers",
                                    c.compress_ratios.size(), layers));
  for (std::size_t i = layers; i < c.compress_ratios.size(); ++i)
    if (c.compress_ratios[i] != 0)
      root.problem(
          fmt::format("text_config.compress_ratios: entry {} belongs to a draft stage and is {}, expected 0",
                      i, c.compress_ratios[i]));
  c.compress_ratios.resize(layers);
}

void check_source_list(ConfigReader& root, const V41Config& c, const char* key, const Ids& ids) {
  if (!ascending(ids)) root.problem(fmt::format("text_config.{}: layers must ascend", key));
  for (const std::int64_t id : ids) {
    if (id >= c.num_hidden_layers) {
      root.problem(fmt::format("text_config.{}: names layer {} of {}", key, id, c.num_hidden_layers));
    } else if (c.compress_ratios[static_cast<std::size_t>(id)] == 0) {
      root.problem(
          fmt::format("text_config.{}: layer {} has compress_ratio 0, so it can be no source", key, id));
    }
  }
}

// Every layer with m > 0 must find a store of its own ratio, and a selection made over that very store.
void check_roles(ConfigReader& root, const V41Config& c) {
  std::int64_t selected_from = -1;  // KV source over which the latest index source selected
  for (std::int64_t layer = 0; layer < c.num_hidden_layers; ++layer) {
    const std::int64_t ratio = c.compress_ratios[static_cast<std::size_t>(layer)];
    if (ratio == 0) continue;
    const std::int64_t source = c.kv_source_of(layer);
    if (source < 0) {
      root.problem(fmt::format(
          "layer {} has compress_ratio {}, but no entry of kv_source_layer_ids is at or before it", layer,
          ratio));
      continue;
    }
    const std::int64_t stored = c.compress_ratios[static_cast<std::size_t>(source)];
    if (stored != ratio)
      root.problem(fmt::format("layer {} has compress_ratio {}, but the store it reads, of layer {}, has {}",
                               layer, ratio, source, stored));
    if (c.is_index_source(layer)) selected_from = source;
    if (selected_from != source)
      root.problem(
          fmt::format("layer {} reads the store of layer {}, over which no entry of index_source_layer_ids "
                      "has selected by then",
                      layer, source));
  }
}

void check_pool(ConfigReader& root, const V41Config& c) {
  if (c.candidate_source_layer_id < 0) return;
  if (!contains(c.index_source_layer_ids, c.candidate_source_layer_id))
    return root.problem(
        fmt::format("text_config.candidate_source_layer_id is {}, which is not in index_source_layer_ids",
                    c.candidate_source_layer_id));
  if ((c.candidate_topk_blocks - 1) * c.candidate_block_size + 1 < c.index_topk)
    root.problem(
        fmt::format("text_config: a pool of {} blocks of {} can hold fewer than index_topk = {} entries: "
                    "(blocks - 1) * size + 1 must reach it",
                    c.candidate_topk_blocks, c.candidate_block_size, c.index_topk));
  const std::int64_t ratio = c.compress_ratios[static_cast<std::size_t>(c.candidate_source_layer_id)];
  for (const std::int64_t id : c.index_source_layer_ids)
    if (id > c.candidate_source_layer_id && c.compress_ratios[static_cast<std::size_t>(id)] != ratio)
      root.problem(fmt::format(
          "layer {} selects inside the pool of layer {}, but reads compress_ratio {} instead of {}", id,
          c.candidate_source_layer_id, c.compress_ratios[static_cast<std::size_t>(id)], ratio));
}

void check_engram_and_drafts(ConfigReader& root, const V41Config& c) {
  if (!ascending(c.engram_layer_ids)) root.problem("text_config.engram_layer_ids: layers must ascend");
  if (!c.engram_layer_ids.empty() && c.engram_layer_ids.back() >= c.num_hidden_layers)
    root.problem(fmt::format("text_config.engram_layer_ids: names layer {} of {}", c.engram_layer_ids.back(),
                             c.num_hidden_layers));
  if (c.engram_layer_ids.size() != c.engram_num_embeddings.size())
    root.problem(fmt::format("text_config: {} engram_layer_ids, but {} engram_num_embeddings",
                             c.engram_layer_ids.size(), c.engram_num_embeddings.size()));
  if (!c.engram_layer_ids.empty()) {
    if (c.engram_pad_token_id >= c.vocab_size)
      root.problem(fmt::format("text_config.engram_pad_token_id is {}, but vocab_size is {}",
                               c.engram_pad_token_id, c.vocab_size));
    if (c.engram_compressed_vocab_size > c.vocab_size)
      root.problem(fmt::format("text_config.engram_compressed_vocab_size is {}, more than vocab_size = {}",
                               c.engram_compressed_vocab_size, c.vocab_size));
  }
  if (c.num_draft_stages == 0) return;
  if (c.draft_experts_per_tok > c.draft_experts)
    root.problem(
        fmt::format("text_config.dspark_num_experts_per_tok is {}, more than dspark_n_routed_experts = {}",
                    c.draft_experts_per_tok, c.draft_experts));
  if (c.draft_block_size < 1 || c.draft_markov_rank < 1)
    root.problem(
        "text_config: num_nextn_predict_layers is not 0, but dspark_block_size or dspark_markov_rank is "
        "missing");
  if (c.draft_noise_token >= c.vocab_size)
    root.problem(fmt::format("text_config.dspark_noise_token_id is {}, but vocab_size is {}",
                             c.draft_noise_token, c.vocab_size));
  if (c.draft_target_layers.empty() || !ascending(c.draft_target_layers) ||
      c.draft_target_layers.back() >= c.num_hidden_layers)
    root.problem("text_config.dspark_target_layer_ids must name at least one layer of the model, ascending");
}

}  // namespace

bool V41Config::is_kv_source(std::int64_t layer) const { return contains(kv_source_layer_ids, layer); }
bool V41Config::is_index_source(std::int64_t layer) const { return contains(index_source_layer_ids, layer); }
bool V41Config::is_engram(std::int64_t layer) const { return contains(engram_layer_ids, layer); }

std::int64_t V41Config::kv_source_of(std::int64_t layer) const {
  if (compress_ratios[static_cast<std::size_t>(layer)] == 0) return -1;
  const auto after = std::upper_bound(kv_source_layer_ids.begin(), kv_source_layer_ids.end(), layer);
  return after == kv_source_layer_ids.begin() ? -1 : *(after - 1);
}

void check_v41_config(ConfigReader& root, V41Config& config) {
  check_sizes(root, config);
  check_ratios(root, config);
  check_engram_and_drafts(root, config);
  if (!root.clean()) return;
  check_source_list(root, config, "kv_source_layer_ids", config.kv_source_layer_ids);
  check_source_list(root, config, "index_source_layer_ids", config.index_source_layer_ids);
  if (!root.clean()) return;
  check_roles(root, config);
  check_pool(root, config);
}

}  // namespace seekline
