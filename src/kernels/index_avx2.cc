// Index scores of the AVX2 level. Over fp4 keys lanes are 8 keys, queries are broadcast, heads are added in
// ascending order; other keys are decoded to rows of f32 and multiplied in 8 lanes along the width.
#include "core/check.h"
#include "formats/rows.h"
#include "kernels/avx2.h"
#include "kernels/index_query.h"
#include "kernels/simd_avx2.h"

namespace seekline::avx2 {
namespace {

using index_lanes::kBlock;
using index_lanes::kWidest;
using index_lanes::Query;

constexpr int kKeys = 32, kVectors = kKeys / 8, kHeads = 2;

struct Keys {
  alignas(32) std::int32_t values[kWidest / 4][kKeys];
  alignas(32) float scale[kWidest / kBlock][kKeys];
};

/// Up to kKeys packed keys -> lanes; missing ones are 0.
void load(const IndexScores& args, std::int64_t first, std::int64_t count, Keys& keys) {
  const int dwords = args.format.width / 8, blocks = args.format.width / kBlock;
  const std::uint8_t* data = args.data + first * dwords * 4;
  for (std::int64_t r = 0; r < kKeys; ++r)
    for (int d = 0; d < dwords; ++d) {
      std::int32_t word = 0;
      if (r < count) __builtin_memcpy(&word, data + (r * dwords + d) * 4, 4);
      keys.values[2 * d][r] = word;
    }
  const __m256i nibble = _mm256_set1_epi8(0x0F);
  const __m256i table =
      _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(index_lanes::kKeyBytes)));
  for (int d = 0; d < dwords; ++d)
    for (int v = 0; v < kVectors; ++v) {
      auto* even = reinterpret_cast<__m256i*>(keys.values[2 * d] + 8 * v);
      auto* odd = reinterpret_cast<__m256i*>(keys.values[2 * d + 1] + 8 * v);
      const __m256i words = _mm256_load_si256(even);
      _mm256_store_si256(even, _mm256_shuffle_epi8(table, _mm256_and_si256(words, nibble)));
      _mm256_store_si256(odd,
                         _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(words, 4), nibble)));
    }
  index_lanes::spread_scales<kKeys>(args.scale + first * blocks, count, blocks, keys.scale);
}

/// The dot products of H heads with kKeys keys. A pair of products is at most 24 * 12 * 2, and eight pairs of
/// a block are far from the end of 16 bits.
template <int H>
SEEKLINE_SIMD void dots(const Query& q, int width, const Keys& keys, __m256 (&dot)[H][kVectors]) {
  const int blocks = width / kBlock;
  for (auto& head : dot)
    for (auto& lanes : head) lanes = _mm256_setzero_ps();
  for (int b = 0; b < blocks; ++b) {
    __m256i sum[H][kVectors];
    for (auto& head : sum)
      for (auto& lanes : head) lanes = _mm256_setzero_si256();
    for (int j = 8 * b; j < 8 * b + 8; ++j) {
      __m256i key[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v)
        key[v] = _mm256_load_si256(reinterpret_cast<const __m256i*>(keys.values[j] + 8 * v));
#pragma GCC unroll 2
      for (int h = 0; h < H; ++h) {
        const __m256i x = _mm256_set1_epi32(q.values[h * (width / 4) + j]);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v)
          sum[h][v] = _mm256_add_epi16(sum[h][v], _mm256_maddubs_epi16(key[v], x));
      }
    }
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h) {
      const __m256i correction = _mm256_set1_epi32(q.correction[h * blocks + b]);
      const __m256 scale = _mm256_set1_ps(q.scale[h * blocks + b]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const __m256i whole =
            _mm256_add_epi32(correction, _mm256_madd_epi16(sum[h][v], _mm256_set1_epi16(1)));
        dot[h][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(whole),
                                    _mm256_mul_ps(scale, _mm256_load_ps(keys.scale[b] + 8 * v)), dot[h][v]);
      }
    }
  }
}

/// Adds weight * relu(q . key) of H heads to the scores of kKeys keys.
template <int H>
SEEKLINE_SIMD void add_heads(const Query& q, const float* weights, int width, const Keys& keys,
                             float* scores) {
  __m256 dot[H][kVectors];
  dots<H>(q, width, keys, dot);
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    __m256 score = _mm256_load_ps(scores + 8 * v);
#pragma GCC unroll 2
    for (int h = 0; h < H; ++h)
      score = _mm256_add_ps(
          score, _mm256_mul_ps(_mm256_set1_ps(weights[h]), _mm256_max_ps(dot[h][v], _mm256_setzero_ps())));
    _mm256_store_ps(scores + 8 * v, score);
  }
}

void fp4_scores(const IndexScores& args) {
  const int width = args.format.width;
  Keys keys;
  for (std::int64_t first = 0; first < args.rows; first += kKeys) {
    const std::int64_t count = args.rows - first < kKeys ? args.rows - first : kKeys;
    load(args, first, count, keys);
    alignas(32) float scores[kKeys] = {};
    Query q = index_lanes::query_at(args.q, width, args.heads);
    int h = 0;
    for (; h + kHeads <= args.heads; h += kHeads, q = index_lanes::after(q, width, kHeads))
      add_heads<kHeads>(q, args.weights + h, width, keys, scores);
    for (; h < args.heads; ++h, q = index_lanes::after(q, width, 1))
      add_heads<1>(q, args.weights + h, width, keys, scores);
    __builtin_memcpy(args.scores + first, scores, static_cast<std::size_t>(count) * 4);
  }
}

/// Heads one after the other, four keys at a time.
void f32_scores(const IndexScores& args) {
  const int width = args.format.width, pitch = simd8::padded8(width);
  const std::int64_t data_bytes = args.format.data_bytes(), scale_bytes = args.format.scale_bytes();
  alignas(32) float keys[kWidest * kTileRows];
  for (std::int64_t first = 0; first < args.rows; first += kTileRows) {
    const int count = args.rows - first < kTileRows ? static_cast<int>(args.rows - first) : kTileRows;
    RowRef rows[kTileRows];
    for (int r = 0; r < count; ++r)
      rows[r] = {args.data + (first + r) * data_bytes, args.scale + (first + r) * scale_bytes};
    TileRows tile{args.format, Arithmetic::kF32, rows, count};
    tile.key_width = width;
    tile.keys = reinterpret_cast<std::uint8_t*>(keys);
    load_tile(tile);
    for (int r = 0; r < count; r += 4) {
      __m128 score = _mm_setzero_ps();
      for (int h = 0; h < args.heads; ++h) {
        const float* q = reinterpret_cast<const float*>(args.q) + h * pitch;
        __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
        for (int c = 0; c < pitch; c += 8)
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i)
            sum[i] =
                _mm256_fmadd_ps(_mm256_load_ps(keys + (r + i) * pitch + c), _mm256_loadu_ps(q + c), sum[i]);
        const __m128 dot = _mm_max_ps(simd8::reduce4(sum[0], sum[1], sum[2], sum[3]), _mm_setzero_ps());
        score = _mm_add_ps(score, _mm_mul_ps(_mm_set1_ps(args.weights[h]), dot));
      }
      alignas(16) float out[4];
      _mm_store_ps(out, score);
      for (int i = 0; i < 4 && r + i < count; ++i) args.scores[first + r + i] = out[i];
    }
  }
}

}  // namespace

std::int64_t index_query_bytes(const RowFormat& format, int heads) {
  return format.kind == RowKind::kIndexFp4 ? index_lanes::query_bytes(format.width, heads)
                                           : std::int64_t{heads} * simd8::padded8(format.width) * 4;
}

void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out) {
  SEEKLINE_CHECK(format.width <= kWidest, "an index key wider than a kernel holds");
  if (format.kind == RowKind::kIndexFp4) return index_lanes::prepare_query(q, format.width, heads, out);
  const auto width = static_cast<std::size_t>(format.width);
  for (int h = 0; h < heads; ++h) {
    float* values = reinterpret_cast<float*>(out) + h * simd8::padded8(format.width);
    quantize_values(row_layout(format).quantizer, {q + static_cast<std::size_t>(h) * width, width},
                    {values, width});
    for (int i = format.width; i < simd8::padded8(format.width); ++i) values[i] = 0;
  }
}

void index_scores(const IndexScores& args) {
  args.format.kind == RowKind::kIndexFp4 ? fp4_scores(args) : f32_scores(args);
}

}  // namespace seekline::avx2
