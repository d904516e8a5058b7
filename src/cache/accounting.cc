#include "seekline/accounting.h"

#include <algorithm>
#include <cmath>

#include "formats/rows.h"

namespace seekline {
namespace {

const Store& store_of(const CachePlan& plan, StoreId id) { return plan.stores[static_cast<std::size_t>(id)]; }

double weight_of_bits(int bits) { return bits / 16.0; }

// Sum over the first `channels` channels of a row of what an operation on each counts.
double weight_of_channels(const RowFormat& row, int channels) {
  const RowLayout layout = row_layout(row);
  const int coded = std::min(channels, layout.coded);
  return coded * weight_of_bits(layout.code_bits) +
         (channels - coded) * weight_of_bits(8 * layout.plain_bytes);
}

void add_rows(DecodeWork::Sum& sum, std::int64_t rows, int heads, double channels, double weight) {
  sum.operations += static_cast<double>(rows) * heads * channels;
  sum.weighted += static_cast<double>(rows) * heads * weight;
}

// Scores against the key channels of a row, then sums of its value channels.
void add_attention(DecodeWork::Sum& sum, const LayerPlan& layer, const Store& store, std::int64_t bytes) {
  add_rows(sum, bytes / store.row.bytes(), layer.heads, layer.key_width + layer.value_width,
           weight_of_channels(store.row, layer.key_width) + weight_of_channels(store.row, layer.value_width));
}

}  // namespace

std::int64_t cache_bytes(const CachePlan& plan, std::int64_t tokens) {
  std::int64_t sum = 0;
  for (const Store& store : plan.stores)
    if (store.kind != StoreKind::kTail) sum += store.rows_at(tokens) * store.row.bytes();
  return sum;
}

std::int64_t window_crossover(const CachePlan& plan) {
  const double stored = plan.stored_bytes_per_token();
  return stored > 0 ? static_cast<std::int64_t>(std::ceil(static_cast<double>(plan.window_bytes()) / stored))
                    : 0;
}

std::int64_t smaller_from(const CachePlan& later, const CachePlan& earlier) {
  const double gain = earlier.stored_bytes_per_token() - later.stored_bytes_per_token();
  if (gain <= 0) return -1;
  // `later` holds at most its rate times the tokens and full windows, `earlier` at least its rate times the
  // tokens less a row of every store; beyond the context where these meet, nothing changes sides.
  double most = static_cast<double>(later.window_bytes());
  for (const Store& store : earlier.stores)
    if (store.growing() && store.tokens_per_row > 1) most += static_cast<double>(store.row.bytes());
  for (auto tokens = static_cast<std::int64_t>(most / gain) + 1; tokens >= 1; --tokens)
    if (cache_bytes(later, tokens) > cache_bytes(earlier, tokens)) return tokens + 1;
  return 1;
}

Sharing sharing(const CachePlan& plan) {
  Sharing out;
  for (const Store& store : plan.stores) {
    if (store.kind != StoreKind::kMain) continue;
    ++out.owners;
    out.stored += static_cast<double>(store.row.bytes()) / store.tokens_per_row;
  }
  for (const LayerPlan& layer : plan.layers) {
    if (!layer.main) continue;
    ++out.readers;
    out.layer_own += static_cast<double>(store_of(plan, *layer.main).row.bytes());
  }
  return out;
}

SearchWork search_work(const CachePlan& plan, std::int64_t tokens) {
  SearchWork work;
  for (int layer = 0; layer < static_cast<int>(plan.layers.size()); ++layer) {
    const Select& select = plan.layers[static_cast<std::size_t>(layer)].select;
    work.scored += plan.scored_rows(layer, tokens);
    if (select.index >= 0) work.without_pool += store_of(plan, select.index).rows_at(tokens);
  }
  return work;
}

PrefillWork prefill_work(const CachePlan& plan, std::int64_t tokens) {
  const auto layers = static_cast<std::int64_t>(plan.layers.size());
  const std::int64_t encoder = plan.first_decoder_layer();
  bool windows = false;
  for (const LayerPlan& layer : plan.layers)
    windows |= layer.part == Part::kDecoder && layer.window.has_value();
  PrefillWork work;
  work.all = layers * tokens;
  work.decoder_tokens =
      encoder == layers ? tokens : std::min<std::int64_t>(tokens, windows ? plan.window : 1);
  work.decoder_last = encoder * tokens + (layers - encoder) * work.decoder_tokens;
  return work;
}

DecodeWork decode_work(const CachePlan& plan, std::int64_t tokens) {
  DecodeWork work;
  for (int l = 0; l < static_cast<int>(plan.layers.size()); ++l) {
    const LayerPlan& layer = plan.layers[static_cast<std::size_t>(l)];
    const Reads reads = plan.layer_reads(l, tokens);
    if (layer.window) add_attention(work.window, layer, store_of(plan, *layer.window), reads.window);
    if (layer.main) add_attention(work.main, layer, store_of(plan, *layer.main), reads.main);
    if (layer.select.index < 0) continue;
    const RowFormat& key = store_of(plan, layer.select.index).row;
    add_rows(work.index_key, plan.scored_rows(l, tokens), layer.select.heads, key.width,
             weight_of_channels(key, key.width));
  }
  return work;
}

}  // namespace seekline
