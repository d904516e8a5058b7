#include "app/demo_figures.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "cache/sequence_cache.h"
#include "checkpoint/presets.h"
#include "model/network.h"
#include "seekline/accounting.h"

namespace seekline {
namespace {

// Stores of a plan as the tables show them: windows of all layers are one line, tails another.
struct Line {
  std::string name, row;
  std::int64_t stored_rows = 0, stored_bytes = 0, read_rows = 0, read_bytes = 0;
};

std::string line_name(const Store& store) {
  if (store.kind == StoreKind::kWindow) return "windows of all layers";
  if (store.kind == StoreKind::kTail) return "compressor tails";
  return fmt::format(
      "{}, a row for {}", store.name,
      store.tokens_per_row == 1 ? "each token" : fmt::format("{} tokens", store.tokens_per_row));
}

// What `tokens` tokens hold, and what the ledger counted since its last reset.
std::vector<Line> lines_of(const CachePlan& plan, std::int64_t tokens, const Ledger& ledger) {
  std::vector<Line> lines;
  for (const Store& store : plan.stores) {
    const std::string name = line_name(store);
    auto known = std::find_if(lines.begin(), lines.end(), [&](const Line& l) { return l.name == name; });
    if (known == lines.end()) known = lines.insert(known, {name, store.row.name()});
    Line& line = *known;
    line.stored_rows += store.rows_at(tokens);
    line.stored_bytes += store.rows_at(tokens) * store.row.bytes();
    for (int layer = 0; layer < static_cast<int>(plan.layers.size()); ++layer) {
      const std::int64_t bytes = ledger.bytes_read(layer, store.id);
      line.read_bytes += bytes;
      line.read_rows += bytes / store.row.bytes();
    }
  }
  return lines;
}

std::string times(double a, double b) { return fmt::format("{:.1f} times", a / b); }

}  // namespace

CachePlan mha_of_the_same_size(const CachePlan& plan) {
  const LayerPlan& layer = plan.layers.front();
  nlohmann::json config = preset_config("mha-v2size");
  config["num_hidden_layers"] = plan.layers.size();
  config["num_attention_heads"] = config["num_key_value_heads"] = layer.heads;
  config["head_dim"] = layer.key_width;
  return plan_of_config(config, "the MHA beside it", Rows::kBF16);
}

std::string demo_figures(Session& session, const ReuseReport& cold) {
  const CachePlan& plan = session.model()->plan();
  const CachePlan mha = mha_of_the_same_size(plan);
  session.cache().ledger().reset();
  session.extend(session.model()->end_tokens().front());
  const std::int64_t tokens = session.length();
  const std::vector<Line> lines = lines_of(plan, tokens, session.cache().ledger());
  std::string text = fmt::format(
      "cache of {} tokens, and what one more token reads\n  {:<42} {:<14} {:>9} {:>12} {:>10} {:>12}\n",
      with_commas(tokens), "store", "row format", "rows", "bytes", "rows read", "bytes read");
  Line sum{"together", ""};
  const auto add = [&](const Line& l) {
    text +=
        fmt::format("  {:<42} {:<14} {:>9} {:>12} {:>10} {:>12}\n", l.name, l.row, with_commas(l.stored_rows),
                    with_commas(l.stored_bytes), with_commas(l.read_rows), with_commas(l.read_bytes));
  };
  for (const Line& l : lines) {
    add(l);
    sum.stored_rows += l.stored_rows, sum.stored_bytes += l.stored_bytes;
    sum.read_rows += l.read_rows, sum.read_bytes += l.read_bytes;
  }
  add(sum);
  const Store& row = mha.stores.front();
  const Line other{fmt::format("MHA of {} layers, {} heads of {}", mha.layers.size(),
                               mha.layers.front().heads, mha.layers.front().key_width),
                   row.row.name(),
                   row.rows_at(tokens) * std::ssize(mha.stores),
                   cache_bytes(mha, tokens),
                   mha.reads(tokens).total() / row.row.bytes(),
                   mha.reads(tokens).total()};
  add(other);
  text += fmt::format("  that MHA holds {} and reads {} as much; the plan says {} bytes read\n\n",
                      times(static_cast<double>(other.stored_bytes), static_cast<double>(sum.stored_bytes)),
                      times(static_cast<double>(other.read_bytes), static_cast<double>(sum.read_bytes)),
                      with_commas(plan.reads(tokens).total()));
  const PrefillWork work = prefill_work(plan, cold.prompt_tokens);
  const std::int64_t done = cold.encoder_evaluations + cold.decoder_evaluations;
  text += fmt::format(
      "prefill of the first prompt, {} tokens: {} evaluations of a layer for a token ({} encoder, {} "
      "decoder); every layer "
      "on every token: {}\n",
      with_commas(cold.prompt_tokens), with_commas(done), with_commas(cold.encoder_evaluations),
      with_commas(cold.decoder_evaluations), with_commas(work.all));
  return text;
}

}  // namespace seekline
