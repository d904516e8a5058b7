#include "attention/tile_scratch.h"

#include <new>

namespace seekline {
TileScratch::TileScratch(Compute& compute, const TileShape& shape, std::int64_t count)
    : query_bytes(whole_lines(compute.kernels.query_bytes(compute.settings.arithmetic, shape.key_width))) {
  const Kernels& k = compute.kernels;
  const Arithmetic arithmetic = compute.settings.arithmetic;
  Arena& arena = compute.arena;
  keys = arena.bytes(k.tile_bytes(arithmetic, shape.key_width));
  values = arena.bytes(k.tile_bytes(arithmetic, shape.value_width));
  queries = arena.bytes(query_bytes * count);
  q = arena.array<const std::uint8_t*>(count);
  valid = arena.array<int>(count);
  states = arena.array<AttendState>(count);
  scratch = arena.bytes(k.attend_scratch_bytes(static_cast<int>(count)));
}

void TileScratch::prepare_query(const Compute& compute, const TileShape& shape, std::int64_t i,
                                const float* x) {
  std::uint8_t* to = queries + i * query_bytes;
  compute.kernels.prepare_query(compute.settings.arithmetic, x, shape.key_width, to);
  q[i] = to;
}

AttendTile TileScratch::tile(const Compute& compute, const TileShape& shape, std::int64_t first,
                             int count) const {
  AttendTile tile;
  tile.arithmetic = compute.settings.arithmetic;
  tile.keys = keys;
  tile.values = values;
  tile.key_width = shape.key_width;
  tile.value_width = shape.value_width;
  tile.scale = shape.scale;
  tile.queries = count;
  tile.q = q + first;
  tile.valid = valid + first;
  tile.states = states + first;
  tile.scratch = scratch;
  return tile;
}

TileScratch* tile_scratch(Compute& compute, const TileShape& shape, std::int64_t queries) {
  TileScratch* all = compute.arena.array<TileScratch>(compute.pool.size());
  for (int w = 0; w < compute.pool.size(); ++w) new (all + w) TileScratch(compute, shape, queries);
  return all;
}

}  // namespace seekline
