#include "app/plan_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "seekline/accounting.h"

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

std::string sharing_text(const CachePlan& plan) {
  const Sharing shared = sharing(plan);
  if (shared.stored == shared.layer_own) return "";
  return fmt::format(
      "  {:<28} {:>18} bytes in {} stores for {} layers; {} if every layer kept a row a token\n",
      "main rows per token", decimal_number(shared.stored), shared.owners, shared.readers,
      decimal_number(shared.layer_own));
}

// What a token searches and multiplies, and what a prompt evaluates.
std::string work_text(const CachePlan& plan, std::int64_t context) {
  const SearchWork search = search_work(plan, context);
  const DecodeWork::Sum work = decode_work(plan, context).total();
  const PrefillWork prefill = prefill_work(plan, context);
  std::string text;
  if (search.scored > 0) {
    text += fmt::format("    {:<26} {:>18} index rows", "scored for one token", with_commas(search.scored));
    if (search.scored < search.without_pool)
      text += fmt::format("; {} without the pool", with_commas(search.without_pool));
    text += "\n";
  }
  text += fmt::format("    {:<26} {:>18.3f} G multiply-adds over the cache; {:.3f} G weighed by precision\n",
                      "work of one token", work.operations / 1e9, work.weighted / 1e9);
  text += fmt::format("    {:<26} {:>18} token-layer evaluations", "prefill", with_commas(prefill.all));
  if (prefill.decoder_last < prefill.all)
    text += fmt::format("; {} with the decoder on the last {}", with_commas(prefill.decoder_last),
                        prefill.decoder_tokens);
  return text + "\n";
}

nlohmann::json accounting_json(const CachePlan& plan, std::int64_t context) {
  const Sharing shared = sharing(plan);
  const SearchWork search = search_work(plan, context);
  const PrefillWork prefill = prefill_work(plan, context);
  const DecodeWork work = decode_work(plan, context);
  const auto sum = [](const DecodeWork::Sum& s) {
    return nlohmann::json{{"operations", s.operations}, {"by_precision", s.weighted}};
  };
  return {{"cache_bytes", cache_bytes(plan, context)},
          {"window_crossover_tokens", window_crossover(plan)},
          {"main_stores",
           {{"owners", shared.owners},
            {"readers", shared.readers},
            {"stored", shared.stored},
            {"layer_own", shared.layer_own}}},
          {"search", {{"scored_rows", search.scored}, {"without_pool", search.without_pool}}},
          {"prefill_evaluations",
           {{"all", prefill.all},
            {"decoder_last", prefill.decoder_last},
            {"decoder_tokens", prefill.decoder_tokens}}},
          {"decode_work",
           {{"main", sum(work.main)},
            {"window", sum(work.window)},
            {"index_key", sum(work.index_key)},
            {"total", sum(work.total())}}}};
}

nlohmann::json reads_json(const Reads& reads) {
  return {{"main", reads.main},
          {"window", reads.window},
          {"index_key", reads.index_key},
          {"total", reads.total()}};
}

}  // namespace

std::string decimal_number(double value, bool always) {
  const std::string digits = fmt::format("{:.2f}", value);
  const std::size_t point = digits.find('.');
  const std::string whole = with_commas(std::stoll(digits.substr(0, point)));
  return always || digits.substr(point) != ".00" ? whole + digits.substr(point) : whole;
}

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
  std::string text = fmt::format("cache plan of {}\n", plan.model);
  const auto line = [&](const std::string& what, const std::string& value, const std::string& note = "") {
    text += fmt::format("  {:<28} {:>18} {}\n", what, value, note);
  };
  const std::int64_t crossover = window_crossover(plan);
  line("stored per token", decimal_number(plan.stored_bytes_per_token(), true), "bytes");
  line("windows of a sequence", with_commas(plan.window_bytes()),
       crossover > 0 ? fmt::format("bytes; as much as the rows of {} tokens", with_commas(crossover))
                     : "bytes");
  line("compressor tails", with_commas(plan.tail_bytes()), "bytes");
  text += sharing_text(plan);
  text += fmt::format("  at {} tokens\n", with_commas(context));
  line("  cache rows", with_commas(cache_bytes(plan, context)), "bytes");
  const Reads reads = plan.reads(context);
  line("  read by one token", with_commas(reads.total()),
       fmt::format("bytes ({:.2f} MB): main {}, windows {}, index keys {}",
                   static_cast<double>(reads.total()) / 1e6, with_commas(reads.main),
                   with_commas(reads.window), with_commas(reads.index_key)));
  text += work_text(plan, context);
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
          {"accounting", accounting_json(plan, context)},
          {"stores", stores},
          {"layers", layers}};
}

}  // namespace seekline
