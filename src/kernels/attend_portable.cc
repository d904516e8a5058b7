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

void load_rows(const RowFormat& format, Arithmetic, const RowRef* rows, int count, int first, int width,
               std::uint8_t* tile) {
  SEEKLINE_CHECK(format.width <= kWidestRow, "a cache row wider than a kernel holds");
  float row[kWidestRow];
  float* out = reinterpret_cast<float*>(tile);
  for (int r = 0; r < count; ++r) {
    decode_row(format, rows[r].data, rows[r].scale, row);
    std::copy_n(row + first, width, out + r * width);
  }
  std::fill_n(out + count * width, (kTileRows - count) * width, 0.0f);
}

std::int64_t attend_scratch_bytes(int) { return kTileRows * 4; }

void attend(const AttendTile& tile) {
  for (int i = 0; i < tile.queries; ++i)
    if (tile.valid[i] > 0)
      attend_query(tile, reinterpret_cast<const float*>(tile.q[i]), tile.valid[i], tile.states[i],
                   reinterpret_cast<float*>(tile.scratch));
}

}  // namespace seekline::portable
