// The cache plan: the only description of what a model stores and reads.
//
// From this one table come what is allocated, what a layer appends and gathers, what `seekline plan` prints,
// what the byte ledger is checked against, what is persisted and what a replay rebuilds (docs/cache-plan.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "seekline/row_format.h"

namespace seekline {

enum class StoreKind : std::uint8_t {
  kMain,      ///< rows that attention reads as key and value
  kIndexKey,  ///< rows that an indexer scores
  kWindow,    ///< the last w tokens of one layer
  kTail,      ///< compressor state: tokens of a group that is not finished
};

using StoreId = int;

/// One store of one sequence. Growing stores gain a row for every `tokens_per_row` tokens; rings hold
/// `ring_rows`.
struct Store {
  StoreId id = 0;
  int owner_layer = 0;
  StoreKind kind = StoreKind::kMain;
  RowFormat row;
  int tokens_per_row = 1;      ///< m; 1 for windows and tails
  std::int64_t ring_rows = 0;  ///< 0: grows without bound
  std::string name;            ///< such as "layer 14 index_key"

  bool growing() const { return ring_rows == 0; }
  /// Finished rows after `tokens` tokens; for rings, the rows that hold something.
  std::int64_t rows_at(std::int64_t tokens) const;
};

/// How a layer picks rows of its main store.
struct Select {
  enum class How : std::uint8_t {
    kNone,        ///< no main store
    kAll,         ///< every finished row
    kTopK,        ///< the best `k` by scores over all rows of `index`
    kLatest,      ///< the list that layer `of_layer` selected
    kPooledTopK,  ///< the best `k` by scores over the rows of `index` inside the pool of layer `pool_of`
  };
  How how = How::kNone;
  int k = 0;
  StoreId index = -1;
  int of_layer = -1;
  int pool_of = -1;
  int heads = 0;  ///< of the indexer; for the accounting of work
};

enum class Part : std::uint8_t { kEncoder, kDecoder };

struct LayerPlan {
  std::optional<StoreId> window;  ///< ring this layer writes and reads
  std::optional<StoreId> main;    ///< store this layer reads (its own or an earlier layer's)
  std::vector<StoreId> writes;    ///< stores this layer appends to, windows and tails included
  Select select;
  Part part = Part::kEncoder;
  int heads = 0;  ///< query heads; each multiplies `key_width` channels of a row it reads, then `value_width`
  int key_width = 0, value_width = 0;
  bool makes_pool = false;  ///< publishes a pool of blocks for later layers (hierarchical indexer)
};

/// Bytes one generated token reads, by what is read.
struct Reads {
  std::int64_t main = 0, window = 0, index_key = 0;
  std::int64_t total() const { return main + window + index_key; }
};

struct CachePlan {
  std::string model;          ///< family and variant, for messages
  std::vector<Store> stores;  ///< stores[i].id == i
  std::vector<LayerPlan> layers;
  int window = 0;                            ///< w, 0 where the model has none
  int pool_blocks = 0, pool_block_rows = 0;  ///< hierarchical indexer; 0 = none

  /// Growth per token in a long context: growing stores only.
  double stored_bytes_per_token() const;
  /// Bytes of all full window rings of one sequence.
  std::int64_t window_bytes() const;
  /// Bytes of all compressor tails of one sequence.
  std::int64_t tail_bytes() const;
  /// What a decode step at context `tokens` (the new token included) reads in layer `layer`, from each store.
  Reads layer_reads(int layer, std::int64_t tokens) const;
  /// The same summed over the layers. A store that several layers read counts once for each.
  Reads reads(std::int64_t tokens) const;
  /// Rows of `index` that layer `layer` scores for one query at context `tokens`; 0 where it runs no indexer.
  std::int64_t scored_rows(int layer, std::int64_t tokens) const;
  /// First layer of the decoder part; layers.size() where the model has no decoder part.
  int first_decoder_layer() const;
};

}  // namespace seekline
