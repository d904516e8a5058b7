// What a thread needs to let some queries look at one tile of rows after the other.
#pragma once

#include <cstdint>

#include "kernels/compute.h"

namespace seekline {

/// How wide the rows of an attention are, and how scores are scaled.
struct TileShape {
  int key_width = 0, value_width = 0;
  float scale = 1;
};

/// In the arena scope it was made in.
struct TileScratch {
  std::uint8_t* keys;    ///< a tile's, as load_tile makes them
  std::uint8_t* values;  ///< likewise, where they are not the keys
  std::uint8_t* queries;
  const std::uint8_t** q;  ///< prepared queries
  int* valid;              ///< rows of the tile that each query may see
  AttendState* states;     ///< of each query; not started
  std::uint8_t* scratch;
  std::int64_t query_bytes;

  /// For `queries` queries at most.
  TileScratch(Compute& compute, const TileShape& shape, std::int64_t queries);

  /// Makes x[key_width] query `i`.
  void prepare_query(const Compute& compute, const TileShape& shape, std::int64_t i, const float* x);

  /// Queries [first, first + count) over the tile last loaded; its values are set by the caller.
  AttendTile tile(const Compute& compute, const TileShape& shape, std::int64_t first, int count) const;
};

/// One for each thread of the pool.
TileScratch* tile_scratch(Compute& compute, const TileShape& shape, std::int64_t queries);

}  // namespace seekline
