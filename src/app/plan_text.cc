#include "app/plan_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"

namespace seekline {
namespace {

const char* kind_name(StoreKind kind) {
  switch (kind) {
    case StoreKind::kMain:
      return "main";
    case StoreKind::kIndexKey:
      return "index_key";
    case StoreKind::kWindow:
      return "window";
    case StoreKind::kTail:
      return "tail";
  }
  return "";
}

std::string store_table(const CachePlan& plan) {
  std::string text = fmt::format("\n  {:<22} {:<16} {:>9} {:>14} {:>16}\n", "store", "row format",
                                 "row bytes", "tokens per row", "extent");
  for (const Store& s : plan.stores)
    text += fmt::format("  {:<22} {:<16} {:>9} {:>14} {:>16}\n", s.name, s.row.name(), s.row.bytes(),
                        s.tokens_per_row, s.growing() ? "growing" : fmt::format("ring of {}", s.ring_rows));
  return text;
}

std::string layer_table(const CachePlan& plan, std::int64_t context) {
  std::string text = fmt::format("\n  {:<6} {:<8} {:<34} {:>14} {:>14} {:>14}\n", "layer", "part", "selects",
                                 "main bytes", "window bytes", "key bytes");
  for (int layer = 0; layer < static_cast<int>(plan.layers.size()); ++layer) {
    const Reads reads = plan.layer_reads(layer, context);
    text += fmt::format(
        "  {:<6} {:<8} {:<34} {:>14} {:>14} {:>14}\n", layer,
        plan.layers[static_cast<std::size_t>(layer)].part == Part::kDecoder ? "decoder" : "encoder",
        select_text(plan, layer), with_commas(reads.main), with_commas(reads.window),
        with_commas(reads.index_key));
  }
  return text;
}

nlohmann::json reads_json(const Reads& reads) {
  return {{"main", reads.main},
          {"window", reads.window},
          {"index_key", reads.index_key},
          {"total", reads.total()}};
}

}  // namespace

std::string select_text(const CachePlan& plan, int layer) {
  const LayerPlan& layer_plan = plan.layers[static_cast<std::size_t>(layer)];
  const Select& s = layer_plan.select;
  const auto owner = [&](StoreId id) { return plan.stores[static_cast<std::size_t>(id)].owner_layer; };
  switch (s.how) {
    case Select::How::kNone:
      return "window only";
    case Select::How::kAll:
      return fmt::format("all of layer {}", owner(*layer_plan.main));
    case Select::How::kTopK:
      return fmt::format("top {} of layer {}", s.k, owner(s.index));
    case Select::How::kLatest:
      return fmt::format("as layer {}", s.of_layer);
    case Select::How::kPooledTopK:
      return fmt::format("top {} of layer {} in its pool", s.k, owner(s.index));
  }
  return "";
}

std::string plan_text(const CachePlan& plan, std::int64_t context, bool tables) {
  const Reads reads = plan.reads(context);
  std::string text = fmt::format("cache plan of {}\n", plan.model);
  text += fmt::format("  stored per token       {:>18.2f} bytes\n", plan.stored_bytes_per_token());
  text += fmt::format("  windows of a sequence  {:>18} bytes\n", with_commas(plan.window_bytes()));
  text += fmt::format("  compressor tails       {:>18} bytes\n", with_commas(plan.tail_bytes()));
  text += fmt::format(
      "  stored at {:<12} {:>18} bytes\n", with_commas(context),
      with_commas(static_cast<std::int64_t>(plan.stored_bytes_per_token() * static_cast<double>(context)) +
                  plan.window_bytes() + plan.tail_bytes()));
  text +=
      fmt::format("  read by a token at {}: {} bytes ({:.2f} MB): main {}, window {}, index keys {}\n",
                  with_commas(context), with_commas(reads.total()), static_cast<double>(reads.total()) / 1e6,
                  with_commas(reads.main), with_commas(reads.window), with_commas(reads.index_key));
  if (tables) text += store_table(plan) + layer_table(plan, context);
  return text;
}

nlohmann::json plan_json(const CachePlan& plan, std::int64_t context) {
  nlohmann::json stores = nlohmann::json::array();
  for (const Store& s : plan.stores)
    stores.push_back({{"name", s.name},
                      {"owner_layer", s.owner_layer},
                      {"kind", kind_name(s.kind)},
                      {"row_format", s.row.name()},
                      {"row_bytes", s.row.bytes()},
                      {"tokens_per_row", s.tokens_per_row},
                      {"ring_rows", s.ring_rows}});
  nlohmann::json layers = nlohmann::json::array();
  for (int layer = 0; layer < static_cast<int>(plan.layers.size()); ++layer)
    layers.push_back(
        {{"selects", select_text(plan, layer)}, {"reads", reads_json(plan.layer_reads(layer, context))}});
  return {{"model", plan.model},
          {"stored_bytes_per_token", plan.stored_bytes_per_token()},
          {"window_bytes", plan.window_bytes()},
          {"tail_bytes", plan.tail_bytes()},
          {"context", context},
          {"reads", reads_json(plan.reads(context))},
          {"stores", stores},
          {"layers", layers}};
}

}  // namespace seekline
