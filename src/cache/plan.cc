#include <algorithm>

#include "core/check.h"
#include "seekline/cache_plan.h"

namespace seekline {

std::int64_t Store::rows_at(std::int64_t tokens) const {
  return growing() ? tokens / tokens_per_row : std::min(tokens, ring_rows);
}

double CachePlan::stored_bytes_per_token() const {
  double sum = 0;
  for (const Store& store : stores)
    if (store.growing()) sum += static_cast<double>(store.row.bytes()) / store.tokens_per_row;
  return sum;
}

std::int64_t CachePlan::window_bytes() const {
  std::int64_t sum = 0;
  for (const Store& store : stores)
    if (store.kind == StoreKind::kWindow) sum += store.ring_rows * store.row.bytes();
  return sum;
}

std::int64_t CachePlan::tail_bytes() const {
  std::int64_t sum = 0;
  for (const Store& store : stores)
    if (store.kind == StoreKind::kTail) sum += store.ring_rows * store.row.bytes();
  return sum;
}

std::int64_t CachePlan::scored_rows(int layer, std::int64_t tokens) const {
  const Select& select = layers[static_cast<std::size_t>(layer)].select;
  if (select.how != Select::How::kTopK && select.how != Select::How::kPooledTopK) return 0;
  const std::int64_t rows = stores[static_cast<std::size_t>(select.index)].rows_at(tokens);
  if (select.how == Select::How::kTopK || rows <= std::int64_t{pool_blocks} * pool_block_rows) return rows;
  // The newest block is always in the pool and may be partly filled.
  const std::int64_t newest = (rows - 1) % pool_block_rows + 1;
  return std::int64_t{pool_blocks - 1} * pool_block_rows + newest;
}

Reads CachePlan::layer_reads(int layer, std::int64_t tokens) const {
  const LayerPlan& plan = layers[static_cast<std::size_t>(layer)];
  Reads reads;
  if (plan.window) {
    const Store& window_store = stores[static_cast<std::size_t>(*plan.window)];
    reads.window = window_store.rows_at(tokens) * window_store.row.bytes();
  }
  if (!plan.main) return reads;
  const Store& main = stores[static_cast<std::size_t>(*plan.main)];
  std::int64_t rows = main.rows_at(tokens);
  const Select& select = plan.select;
  switch (select.how) {
    case Select::How::kNone:
      rows = 0;
      break;
    case Select::How::kAll:
      break;
    case Select::How::kLatest:
      rows = std::min<std::int64_t>(rows, layers[static_cast<std::size_t>(select.of_layer)].select.k);
      break;
    case Select::How::kTopK:
    case Select::How::kPooledTopK: {
      const std::int64_t scored = scored_rows(layer, tokens);
      reads.index_key = scored * stores[static_cast<std::size_t>(select.index)].row.bytes();
      rows = std::min<std::int64_t>(scored, select.k);
      break;
    }
  }
  reads.main = rows * main.row.bytes();
  return reads;
}

Reads CachePlan::reads(std::int64_t tokens) const {
  Reads sum;
  for (int layer = 0; layer < static_cast<int>(layers.size()); ++layer) {
    const Reads reads = layer_reads(layer, tokens);
    sum.main += reads.main;
    sum.window += reads.window;
    sum.index_key += reads.index_key;
  }
  return sum;
}

int CachePlan::first_decoder_layer() const {
  for (std::size_t layer = 0; layer < layers.size(); ++layer)
    if (layers[layer].part == Part::kDecoder) return static_cast<int>(layer);
  return static_cast<int>(layers.size());
}

}  // namespace seekline
