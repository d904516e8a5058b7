// Index scores over index_fp8 keys: codes become bf16 without loss, so a block's dot product is a sum of
// exact products; the two scales are applied to that sum. Lanes are keys, 64 at a time.
#include "core/check.h"
#include "formats/elements.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kBlock = 128, kKeys = 64, kHeads = 4;
constexpr int kWidest = 1024;  // channels of a key

/// A prepared query: [heads][width / 2] dwords of two bf16, then [heads][blocks] f32 scales.
struct Query {
  const std::int32_t* pairs;
  const float* scale;
};

struct Keys {
  alignas(64) std::int32_t pairs[kWidest / 2][kKeys];
  alignas(64) float scale[kWidest / kBlock][kKeys];
};

/// Up to 64 keys -> lanes; missing ones are 0. Dword d of vector v of an expanded half block is the pair
/// 8 (d / 4) + 4 v + d % 4.
SEEKLINE_SIMD void load(const IndexScores& args, std::int64_t first, std::int64_t count, Keys& keys) {
  const int width = args.format.width, blocks = width / kBlock;
  const E4M3Step step;
  for (int group = 0; group < kKeys; group += 16) {
    for (int channel = 0; channel < width; channel += 64) {
      __m512i even[16], odd[16];
#pragma GCC unroll 16
      for (int r = 0; r < 16; ++r) {
        __m512i v[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        if (group + r < count)
          step.expand(_mm512_loadu_si512(args.data + (first + group + r) * width + channel), v);
        even[r] = v[0];
        odd[r] = v[1];
      }
      simd::transpose16(even);
      simd::transpose16(odd);
      for (int d = 0; d < 16; ++d) {
        const int pair = channel / 2 + 8 * (d / 4) + d % 4;
        _mm512_store_si512(keys.pairs[pair] + group, even[d]);
        _mm512_store_si512(keys.pairs[pair + 4] + group, odd[d]);
      }
    }
  }
  const std::uint8_t* scale = args.scale + first * blocks * 4;
  for (int b = 0; b < blocks; ++b) {
    for (std::int64_t r = 0; r < count; ++r)
      __builtin_memcpy(&keys.scale[b][r], scale + (r * blocks + b) * 4, 4);
    for (std::int64_t r = count; r < kKeys; ++r) keys.scale[b][r] = 0;
  }
}

/// Adds weight * relu(q . key) of H heads, ascending, to the scores of 64 keys.
template <int H>
SEEKLINE_SIMD void add_heads(const Query& q, const float* weights, int width, const Keys& keys,
                             float* scores) {
  const int blocks = width / kBlock;
  __m512 dot[H][4];
  for (auto& head : dot)
    for (auto& lanes : head) lanes = _mm512_setzero_ps();
  for (int b = 0; b < blocks; ++b) {
    __m512 sum[H][4];
    for (auto& head : sum)
      for (auto& lanes : head) lanes = _mm512_setzero_ps();
    for (int j = b * kBlock / 2; j < (b + 1) * kBlock / 2; ++j) {
      __m512bh key[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        key[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(keys.pairs[j] + 16 * v));
#pragma GCC unroll 4
      for (int h = 0; h < H; ++h) {
        const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(q.pairs[h * (width / 2) + j]));
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) sum[h][v] = _mm512_dpbf16_ps(sum[h][v], key[v], x);
      }
    }
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h) {
      const __m512 scale = _mm512_set1_ps(q.scale[h * blocks + b]);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        dot[h][v] = _mm512_fmadd_ps(sum[h][v], _mm512_mul_ps(scale, _mm512_load_ps(keys.scale[b] + 16 * v)),
                                    dot[h][v]);
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < 4; ++v) {
    __m512 score = _mm512_load_ps(scores + 16 * v);
#pragma GCC unroll 4
    for (int h = 0; h < H; ++h)
      score = _mm512_add_ps(
          score, _mm512_mul_ps(_mm512_set1_ps(weights[h]), _mm512_max_ps(dot[h][v], _mm512_setzero_ps())));
    _mm512_store_ps(scores + 16 * v, score);
  }
}

}  // namespace

bool takes_fp8_index(const RowFormat& format) {
  return format.kind == RowKind::kIndexFp8 && format.width % kBlock == 0;
}

std::int64_t fp8_index_query_bytes(const RowFormat& format, int heads) {
  return std::int64_t{heads} * (format.width * 2 + format.width / kBlock * 4);
}

void prepare_fp8_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out) {
  SEEKLINE_CHECK(format.width <= kWidest, "an index key wider than a kernel holds");
  const BlockQuantizer quantizer = row_layout(format).quantizer;
  auto* words = reinterpret_cast<std::uint16_t*>(out);
  auto* scales = reinterpret_cast<float*>(words + heads * format.width);
  for (int h = 0; h < heads; ++h)
    for (int first = 0; first < format.width; first += kBlock) {
      const QuantizedBlock block =
          quantize_block(quantizer, {q + h * format.width + first, static_cast<std::size_t>(kBlock)});
      for (const std::uint8_t code : block.codes) *words++ = f32_to_bf16(e4m3_to_f32(code));
      *scales++ = block.scale;
    }
}

void fp8_index_scores(const IndexScores& args) {
  const int width = args.format.width, blocks = width / kBlock;
  Keys keys;
  for (std::int64_t first = 0; first < args.rows; first += kKeys) {
    const std::int64_t count = args.rows - first < kKeys ? args.rows - first : kKeys;
    load(args, first, count, keys);
    alignas(64) float scores[kKeys] = {};
    const auto* pairs = reinterpret_cast<const std::int32_t*>(args.q);
    Query q{pairs, reinterpret_cast<const float*>(pairs + args.heads * (width / 2))};
    int h = 0;
    for (; h + kHeads <= args.heads; h += kHeads) {
      add_heads<kHeads>(q, args.weights + h, width, keys, scores);
      q = {q.pairs + kHeads * (width / 2), q.scale + kHeads * blocks};
    }
    for (; h < args.heads; ++h) {
      add_heads<1>(q, args.weights + h, width, keys, scores);
      q = {q.pairs + width / 2, q.scale + blocks};
    }
    for (std::int64_t r = 0; r < count; r += 16)
      _mm512_mask_storeu_ps(args.scores + first + r, simd::first16(count - r), _mm512_load_ps(scores + r));
  }
}

}  // namespace seekline::avx512bf16
