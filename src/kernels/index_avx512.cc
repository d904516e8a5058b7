// Index scores of the AVX-512 level: fp4 keys by int8 products in two steps; other keys in f32.
#include "kernels/index_avx512.h"

#include "core/check.h"
#include "kernels/attend_avx512.h"
#include "kernels/avx512.h"

namespace seekline::avx512 {
namespace {

struct Pairs {
  /// At most 24 * 12 * 2 a pair: far from saturation.
  SEEKLINE_MEMBER static __m512i add_dots(__m512i sum, __m512i key, __m512i query) {
    const __m512i pairs = _mm512_maddubs_epi16(key, query);
    return _mm512_add_epi32(sum, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
  }
};

/// 64 rows at a time, decoded to lanes; heads in groups.
void f32_scores(const IndexScores& args) {
  const int width = args.format.width;
  const std::int64_t data_bytes = args.format.data_bytes(), scale_bytes = args.format.scale_bytes();
  alignas(64) float keys[index_lanes::kWidest * kTileRows];
  for (std::int64_t first = 0; first < args.rows; first += kTileRows) {
    const int count = args.rows - first < kTileRows ? static_cast<int>(args.rows - first) : kTileRows;
    RowRef rows[kTileRows];
    for (int r = 0; r < count; ++r)
      rows[r] = {args.data + (first + r) * data_bytes, args.scale + (first + r) * scale_bytes};
    TileRows tile{args.format, Arithmetic::kF32, rows, count};
    tile.key_width = width;
    tile.keys = reinterpret_cast<std::uint8_t*>(keys);
    load_tile(tile);
    __m512 score[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int h = 0; h < args.heads; ++h) {
      const float* q = reinterpret_cast<const float*>(args.q) + h * width;
      __m512 dot[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
      for (int c = 0; c < width; ++c)
        for (int v = 0; v < 4; ++v)
          dot[v] =
              _mm512_fmadd_ps(_mm512_load_ps(keys + c * kTileRows + 16 * v), _mm512_set1_ps(q[c]), dot[v]);
      for (int v = 0; v < 4; ++v)
        score[v] = _mm512_add_ps(score[v], _mm512_mul_ps(_mm512_set1_ps(args.weights[h]),
                                                         _mm512_max_ps(dot[v], _mm512_setzero_ps())));
    }
    for (int v = 0; v < 4; ++v)
      _mm512_mask_storeu_ps(args.scores + first + 16 * v, simd::first16(count > 16 * v ? count - 16 * v : 0),
                            score[v]);
  }
}

}  // namespace

std::int64_t index_query_bytes(const RowFormat& format, int heads) {
  return format.kind == RowKind::kIndexFp4 ? index_lanes::query_bytes(format.width, heads)
                                           : std::int64_t{heads} * format.width * 4;
}

void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out) {
  SEEKLINE_CHECK(format.width <= index_lanes::kWidest, "an index key wider than a kernel holds");
  if (format.kind == RowKind::kIndexFp4) return index_lanes::prepare_query(q, format.width, heads, out);
  for (int h = 0; h < heads; ++h)
    quantize(row_layout(format).quantizer, q + h * format.width, format.width,
             reinterpret_cast<float*>(out) + h * format.width);
}

void index_scores(const IndexScores& args) {
  args.format.kind == RowKind::kIndexFp4 ? index_lanes::fp4_scores<Pairs>(args) : f32_scores(args);
}

}  // namespace seekline::avx512
