// Attention over pairs of bf16 with f32 sums; queries and softmax weights are rounded to bf16. Products in
// both forms (dots.h); tiles are the same.
#include "kernels/attend_avx512.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/dots_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

struct BF16 {
  using Mode = simd::AnyMode;
  static constexpr int kPerDword = 2, kHalves = 1;
  SEEKLINE_MEMBER static __m512i half(__m512i dwords, int) { return dwords; }
  SEEKLINE_MEMBER static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
  }
  SEEKLINE_MEMBER static __m512i pack(const float* p) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_load_ps(p + 16), _mm512_load_ps(p)));
  }
  /// 16 channels of two rows: the first row's in the low halves of the lanes.
  SEEKLINE_MEMBER static __m512i join(const std::uint8_t* even, const std::uint8_t* odd, int channel) {
    const auto words = [channel](const std::uint8_t* row) __attribute__((always_inline)) {
      return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + channel * 2)));
    };
    return _mm512_or_si512(words(even), _mm512_slli_epi32(words(odd), 16));
  }
  SEEKLINE_MEMBER static void pack_weights(const float* p, std::int32_t* out) {
    for (int i = 0; i < kTileRows; i += 32) _mm512_store_si512(out + i / 2, pack(p + i));
  }
};

/// The odd words first, then the even ones, as f32.
struct FusedPairs : BF16 {
  using Mode = NoSubnormals;
  static constexpr int kHalves = 2;
  SEEKLINE_MEMBER static __m512i half(__m512i dwords, int half) {
    return _mm512_castps_si512(half == 0 ? odd_words(dwords) : even_words(dwords));
  }
  SEEKLINE_MEMBER static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
  SEEKLINE_MEMBER static void pack_weights(const float* p, std::int32_t* out) {
    for (int i = 0; i < kTileRows; i += 32) {
      const __m512i dwords = pack(p + i);
      _mm512_store_si512(out + i / 2, half(dwords, 0));
      _mm512_store_si512(out + kTileRows / 2 + i / 2, half(dwords, 1));
    }
  }
};

bool in_f32(Arithmetic arithmetic) { return arithmetic == Arithmetic::kF32; }

}  // namespace

std::int64_t query_bytes(Arithmetic arithmetic, int width) {
  if (in_f32(arithmetic)) return avx512::query_bytes(arithmetic, width);
  return std::int64_t{width + 1} / 2 * (dots() == Dots::kInstruction ? 4 : 8);
}

void prepare_query(Arithmetic arithmetic, const float* q, int width, std::uint8_t* out) {
  if (in_f32(arithmetic)) return avx512::prepare_query(arithmetic, q, width, out);
  const bool pairs = dots() == Dots::kFusedPairs;
  const int dwords = (width + 1) / 2;
  auto* odd = reinterpret_cast<float*>(out);
  for (int i = 0; i < width; i += 16) {
    const int n = width - i < 16 ? width - i : 16;
    const auto words =
        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(_mm512_maskz_loadu_ps(simd::first16(n), q + i)));
    if (!pairs) {
      _mm256_mask_storeu_epi16(out + 2 * i, simd::first16((n + 1) / 2 * 2), words);
      continue;
    }
    const __m512i both = _mm512_castsi256_si512(words);
    const __mmask16 whole = simd::first16((n + 1) / 2);
    _mm512_mask_storeu_ps(odd + i / 2, whole, odd_words(both));
    _mm512_mask_storeu_ps(odd + dwords + i / 2, whole, even_words(both));
  }
}

std::int64_t tile_bytes(Arithmetic arithmetic, int width) {
  return in_f32(arithmetic) ? avx512::tile_bytes(arithmetic, width) : attend_lanes::tile_bytes<BF16>(width);
}

const std::uint8_t* load_tile(const TileRows& rows) {
  return in_f32(rows.arithmetic) ? avx512::load_tile(rows) : attend_lanes::load_tile<BF16>(rows);
}

void attend(const AttendTile& tile) {
  if (in_f32(tile.arithmetic)) return avx512::attend(tile);
  dots() == Dots::kInstruction ? attend_lanes::attend<BF16>(tile) : attend_lanes::attend<FusedPairs>(tile);
}

}  // namespace seekline::avx512bf16
