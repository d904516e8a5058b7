// Index scores over fp4 keys: lanes are 64 keys, queries are broadcast, heads are added in ascending order
// (index_query.h has the arithmetic).
#pragma once

#include "kernels/index_query.h"
#include "kernels/simd_avx512.h"
#include "kernels/table.h"

namespace seekline::index_lanes {

inline constexpr int kKeys = 64, kHeads = 4;

struct Keys {
  alignas(64) std::int32_t values[kWidest / 4][kKeys];
  alignas(64) float scale[kWidest / kBlock][kKeys];
};

/// Whether all of n scales (powers of two, or 0) lie within 2^-63 .. 2^63: products of two such are normal,
/// so their bits are the sum of the factors' bits less those of 1. An addition of integers is on other ports
/// than the dot products, a multiplication is not.
SEEKLINE_SIMD bool moderate(const float* scales, std::int64_t n) {
  const __m512i least = _mm512_set1_epi32(64 << 23), span = _mm512_set1_epi32(126 << 23);
  __mmask16 outside = 0;
  for (std::int64_t i = 0; i < n; i += 16) {
    const __m512i bits = _mm512_maskz_loadu_epi32(simd::first16(n - i), scales + i);
    outside |= _mm512_mask_cmpgt_epu32_mask(simd::first16(n - i), _mm512_sub_epi32(bits, least), span);
  }
  return outside == 0;
}

/// ue8m0 codes -> lanes of f32.
SEEKLINE_SIMD void load_scales(const std::uint8_t* codes, std::int64_t count, int blocks, Keys& keys) {
  if (blocks == 4 && count == kKeys) {  // the codes of a key are one lane
    for (int group = 0; group < kKeys; group += 16) {
      const __m512i four = _mm512_loadu_si512(codes + group * 4);
#pragma GCC unroll 4
      for (unsigned b = 0; b < 4; ++b) {
        const __m512i code = _mm512_and_si512(_mm512_srli_epi32(four, 8 * b), _mm512_set1_epi32(0xFF));
        _mm512_store_si512(keys.scale[b] + group,
                           _mm512_max_epu32(_mm512_slli_epi32(code, 23), _mm512_set1_epi32(0x400000)));
      }
    }
    return;
  }
  spread_scales<kKeys>(codes, count, blocks, keys.scale);
}

/// Up to 64 packed keys -> lanes; missing ones are 0.
SEEKLINE_SIMD void load(const IndexScores& args, std::int64_t first, std::int64_t count, Keys& keys) {
  const int dwords = args.format.width / 8, blocks = args.format.width / kBlock;
  const __m512i nibble = _mm512_set1_epi8(0x0F);
  const __m512i table = _mm512_broadcast_i32x4(_mm_load_si128(reinterpret_cast<const __m128i*>(kKeyBytes)));
  for (int group = 0; group < kKeys; group += 16) {
    for (int chunk = 0; chunk < dwords; chunk += 16) {
      const __mmask16 m = simd::first16(dwords - chunk);
      __m512i block[16];
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r)
        block[r] = group + r < count
                       ? _mm512_maskz_loadu_epi32(m, args.data + ((first + group + r) * dwords + chunk) * 4)
                       : _mm512_setzero_si512();
      simd::transpose16(block);
      for (int d = 0; d < 16 && chunk + d < dwords; ++d) {
        const __m512i even = _mm512_and_si512(block[d], nibble);
        const __m512i odd = _mm512_and_si512(_mm512_srli_epi16(block[d], 4), nibble);
        _mm512_store_si512(keys.values[2 * (chunk + d)] + group, _mm512_shuffle_epi8(table, even));
        _mm512_store_si512(keys.values[2 * (chunk + d) + 1] + group, _mm512_shuffle_epi8(table, odd));
      }
    }
  }
  load_scales(args.scale + first * blocks, count, blocks, keys);
}

/// Adds weight * relu(q . key) of H heads to the scores of 64 keys, half of the keys after the other: sums of
/// all would not stay in registers. `kModerate`: so are all scales.
template <class Op, int H, bool kModerate>
SEEKLINE_SIMD void add_heads(const Query& q, const float* weights, int width, const Keys& keys,
                             float* scores) {
  constexpr int kVectors = 2;
  const int blocks = width / kBlock;
  for (int key = 0; key < kKeys; key += 16 * kVectors) {
    __m512 dot[H][kVectors];
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h)
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) dot[h][v] = _mm512_setzero_ps();
    for (int b = 0; b < blocks; ++b) {
      __m512i sum[H][kVectors];
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h)
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[h][v] = _mm512_set1_epi32(q.correction[h * blocks + b]);
#pragma GCC unroll 8
      for (int j = 8 * b; j < 8 * b + 8; ++j) {
        __m512i values[kVectors];
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) values[v] = _mm512_load_si512(keys.values[j] + key + 16 * v);
#pragma GCC unroll 4
        for (int h = 0; h < H; ++h) {
          const __m512i x = _mm512_set1_epi32(q.values[h * (width / 4) + j]);
#pragma GCC unroll 2
          for (int v = 0; v < kVectors; ++v) sum[h][v] = Op::add_dots(sum[h][v], values[v], x);
        }
      }
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const __m512 of_query = _mm512_set1_ps(q.scale[h * blocks + b]);
        const __m512i less_one =
            _mm512_sub_epi32(_mm512_castps_si512(of_query), _mm512_set1_epi32(0x3F800000));
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) {
          const __m512 of_keys = _mm512_load_ps(keys.scale[b] + key + 16 * v);
          const __m512 scale =
              kModerate ? _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(of_keys), less_one))
                        : _mm512_mul_ps(of_query, of_keys);
          dot[h][v] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[h][v]), scale, dot[h][v]);
        }
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) {
      __m512 score = _mm512_load_ps(scores + key + 16 * v);
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h)
        score = _mm512_add_ps(
            score, _mm512_mul_ps(_mm512_set1_ps(weights[h]), _mm512_max_ps(dot[h][v], _mm512_setzero_ps())));
      _mm512_store_ps(scores + key + 16 * v, score);
    }
  }
}

/// All heads over the keys of a tile; `next`: the keys after these, spread over the products.
template <class Op, bool kModerate>
SEEKLINE_SIMD void add_all(const IndexScores& args, const Keys& keys, simd::Ahead next, float* scores) {
  const int width = args.format.width;
  Query q = query_at(args.q, width, args.heads);
  int h = 0;
  for (; h + kHeads <= args.heads; h += kHeads) {
    next.fetch();
    add_heads<Op, kHeads, kModerate>(q, args.weights + h, width, keys, scores);
    q = after(q, width, kHeads);
  }
  for (; h < args.heads; ++h) {
    add_heads<Op, 1, kModerate>(q, args.weights + h, width, keys, scores);
    q = after(q, width, 1);
  }
}

template <class Op>
void fp4_scores(const IndexScores& args) {
  const int width = args.format.width, blocks = width / kBlock;
  const bool moderate_query =
      moderate(query_at(args.q, width, args.heads).scale, std::int64_t{args.heads} * blocks);
  Keys keys;
  for (std::int64_t first = 0; first < args.rows; first += kKeys) {
    const std::int64_t count = args.rows - first < kKeys ? args.rows - first : kKeys;
    load(args, first, count, keys);
    const std::int64_t lines = kKeys * (width / 2) / 64;
    const simd::Ahead next{args.data + (first + kKeys) * (width / 2), lines, lines * kHeads / args.heads + 1};
    alignas(64) float scores[kKeys] = {};
    if (moderate_query && moderate(keys.scale[0], std::int64_t{blocks} * kKeys)) {
      add_all<Op, true>(args, keys, next, scores);
    } else {
      add_all<Op, false>(args, keys, next, scores);
    }
    for (std::int64_t r = 0; r < count; r += 16)
      _mm512_mask_storeu_ps(args.scores + first + r, simd::first16(count - r), _mm512_load_ps(scores + r));
  }
}

}  // namespace seekline::index_lanes
