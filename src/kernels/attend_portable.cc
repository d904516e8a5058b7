#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/check.h"
#include "formats/rows.h"
#include "kernels/portable.h"

// A tile is kTileRows rows of `width` f32, for keys and values alike.
namespace seekline::portable {
namespace {

constexpr int kWidestRow = 4096;

/// One query over one tile: `weights` holds kTileRows floats to work in.
void attend_query(const AttendTile& tile, const float* q, int valid, AttendState& state, float* weights) {
  const float* keys = reinterpret_cast<const float*>(tile.keys);
  const float* values = reinterpret_cast<const float*>(tile.values);
  float max = state.max;
  for (int j = 0; j < valid; ++j) {
    weights[j] = tile.scale * dot(q, keys + j * tile.key_width, tile.key_width);
    max = std::max(max, weights[j]);
  }
  for (int j = 0; j < kTileRows; ++j) weights[j] = j < valid ? weights[j] - max : -INFINITY;
  exp(weights, kTileRows, weights);
  float keep = state.max - max;
  exp(&keep, 1, &keep);

  for (int d = 0; d < tile.value_width; ++d) state.out[d] *= keep;
  for (int j = 0; j < valid; ++j)
    axpy(weights[j], values + j * tile.value_width, tile.value_width, state.out);
  float ones[kTileRows];
  std::fill_n(ones, kTileRows, 1.0f);
  state.sum = state.sum * keep + dot(weights, ones, kTileRows);
  state.max = max;
}

}  // namespace

std::int64_t query_bytes(Arithmetic, int width) { return width * 4; }

void prepare_query(Arithmetic, const float* q, int width, std::uint8_t* out) {
  std::memcpy(out, q, static_cast<std::size_t>(width) * 4);
}

std::int64_t tile_bytes(Arithmetic, int width) { return std::int64_t{kTileRows} * width * 4; }

const std::uint8_t* load_tile(const TileRows& t) {
  SEEKLINE_CHECK(t.format.width <= kWidestRow, "a cache row wider than a kernel holds");
  const bool same = t.key_first == t.value_first && t.key_width == t.value_width;
  auto* keys = reinterpret_cast<float*>(t.keys);
  auto* values = reinterpret_cast<float*>(same ? t.keys : t.values);
  float row[kWidestRow];
  for (int r = 0; r < t.count; ++r) {
    decode_row(t.format, t.rows[r].data, t.rows[r].scale, row);
    std::copy_n(row + t.key_first, t.key_width, keys + r * t.key_width);
    if (!same) std::copy_n(row + t.value_first, t.value_width, values + r * t.value_width);
  }
  const int missing = kTileRows - t.count;
  std::fill_n(keys + t.count * t.key_width, missing * t.key_width, 0.0f);
  std::fill_n(values + t.count * t.value_width, missing * t.value_width, 0.0f);
  return same ? t.keys : t.values;
}

std::int64_t attend_scratch_bytes(int) { return kTileRows * 4; }

void attend(const AttendTile& tile) {
  for (int i = 0; i < tile.queries; ++i)
    if (tile.valid[i] > 0)
      attend_query(tile, reinterpret_cast<const float*>(tile.q[i]), tile.valid[i], tile.states[i],
                   reinterpret_cast<float*>(tile.scratch));
}

}  // namespace seekline::portable
