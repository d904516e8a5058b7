// Rows of the cache -> the two forms of an attention tile, in 16 lanes, for f32 and for pairs of bf16.
//
// A "dword" is one f32 or two neighbouring bf16 (Op::kPerDword).
//   key form    [dwords of the width][64 rows]    lanes are rows
//   value form  [rows / values per dword][width]  lanes are channels
// Both are made from the same packed rows, so a row that serves as key and as value is decoded once; rows
// that already lie as dwords are not copied at all.
#pragma once

#include "formats/rows.h"
#include "kernels/avx512.h"
#include "kernels/simd_avx512.h"
#include "kernels/table.h"

namespace seekline::attend_lanes {

inline constexpr int kChunk = 128;  ///< channels decoded at once
inline constexpr int kLanes = 16;   ///< rows decoded at once

template <class Op>
constexpr int dwords(int width) {
  return (width + Op::kPerDword - 1) / Op::kPerDword;
}

SEEKLINE_SIMD int padded16(int n) { return (n + 15) / 16 * 16; }

template <class Op>
std::int64_t tile_bytes(int width) {
  // The larger of the key form and the value form.
  const std::int64_t keys = std::int64_t{dwords<Op>(width)} * kTileRows * 4;
  const std::int64_t values = std::int64_t{kTileRows / Op::kPerDword} * padded16(width) * 4;
  return keys > values ? keys : values;
}

/// Channels of a tile's rows that are wanted in the same forms, and where these begin; null: not wanted.
struct TileSpan {
  int first, width;
  std::int32_t* keys;
  std::int32_t* values;
  int value_stride;  ///< dwords between rows of the value form
};

/// Channels [first, first + count) of a row as dwords: where they lie in the row, or decoded to `packed`,
/// with zeros up to whole vectors.
template <class Op>
SEEKLINE_SIMD const std::uint8_t* packed_row(const RowLayout& layout, const RowRef& row, int first, int count,
                                             std::uint8_t* packed) {
  constexpr int kVector = 16 * Op::kPerDword;
  if (first >= layout.coded && layout.plain_bytes == 4 / Op::kPerDword && count % kVector == 0)
    return row.data + layout.code_bytes() + (first - layout.coded) * layout.plain_bytes;
  alignas(64) float decoded[kChunk];
  avx512::decode_channels(layout, row.data, row.scale, first, count, decoded);
  for (int i = count; i % kVector != 0; ++i) decoded[i] = 0;
  for (int i = 0; i < count; i += kVector)
    _mm512_store_si512(packed + i / kVector * 64, Op::pack(decoded + i));
  return packed;
}

template <class Op>
SEEKLINE_SIMD void load_span(const TileRows& t, const RowLayout& layout, const TileSpan& span) {
  constexpr int kPer = Op::kPerDword;
  alignas(64) std::uint8_t packed[kLanes][kChunk / kPer * 4];
  for (int row = 0; row < kTileRows; row += kLanes) {
    for (int channel = 0; channel < span.width; channel += kChunk) {
      const int n = span.width - channel < kChunk ? span.width - channel : kChunk;
      const std::uint8_t* rows[kLanes];
      for (int r = 0; r < kLanes; ++r) {
        rows[r] = packed[r];
        if (row + r < t.count) {
          rows[r] = packed_row<Op>(layout, t.rows[row + r], span.first + channel, n, packed[r]);
        } else {
          __builtin_memset(packed[r], 0, sizeof packed[r]);
        }
      }
      if (span.keys) {
        std::int32_t* out = span.keys + channel / kPer * kTileRows + row;
        for (int c = 0; c < dwords<Op>(n); c += 16) {
          __m512i block[kLanes];
#pragma GCC unroll 16
          for (int r = 0; r < kLanes; ++r) block[r] = _mm512_loadu_si512(rows[r] + c * 4);
          simd::transpose16(block);
          const int columns = dwords<Op>(n) - c;
          for (int d = 0; d < 16 && d < columns; ++d)
            _mm512_storeu_si512(out + (c + d) * kTileRows, block[d]);
        }
      }
      if (span.values) {
        std::int32_t* out = span.values + row / kPer * span.value_stride + channel;
        for (int r = 0; r < kLanes; r += kPer)
          for (int c = 0; c < n; c += 16)
            _mm512_storeu_si512(out + r / kPer * span.value_stride + c,
                                Op::join(rows[r], rows[r + kPer - 1], c));
      }
    }
  }
}

template <class Op>
SEEKLINE_SIMD const std::uint8_t* load_tile(const TileRows& t) {
  const RowLayout layout = row_layout(t.format);
  auto* keys = reinterpret_cast<std::int32_t*>(t.keys);
  auto* values = reinterpret_cast<std::int32_t*>(t.values);
  const int stride = padded16(t.value_width);
  // Channels that serve as both stand in front of both, in whole vectors; else each form is made by itself.
  int both = 0;
  if (t.key_first == t.value_first) both = t.key_width < t.value_width ? t.key_width : t.value_width;
  if (both % 32 != 0 && t.key_width != t.value_width) both = 0;
  if (both > 0) load_span<Op>(t, layout, {t.key_first, both, keys, values, stride});
  if (t.key_width > both)
    load_span<Op>(
        t, layout,
        {t.key_first + both, t.key_width - both, keys + both / Op::kPerDword * kTileRows, nullptr, 0});
  if (t.value_width > both)
    load_span<Op>(t, layout, {t.value_first + both, t.value_width - both, nullptr, values + both, stride});
  return t.values;
}

}  // namespace seekline::attend_lanes
