// Products along the rows of a weight, as sums of pairs of bf16: lanes are columns, and a pair is two
// neighbouring rows. Rows that share a block of f32 scales are one sum, times the scale, added to the
// output's; without scales all rows are one sum.
#include <type_traits>

#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kCols = 64;   // of one tile: four vectors of pairs
constexpr int kTokens = 6;  // of one micro-kernel: 6 x 4 sums, 4 operands, 1 broadcast
constexpr int kFew = 4;     // tokens that take pairs as they are decoded, without a tile in memory
constexpr int kPairs = 4;   // of rows that are read together then: some KB, in the order they lie in

/// 64 columns of two rows -> four vectors of pairs. `column(v, quarter)` says where the four lanes of a
/// quarter belong.
struct BF16Pairs {
  static constexpr int kLines = 2;  ///< of 64 columns of a row
  static constexpr int column(int v, int quarter) { return 32 * (v / 2) + 8 * quarter + 4 * (v % 2); }
  SEEKLINE_MEMBER void join(const std::uint8_t* a, const std::uint8_t* b, std::int64_t cols,
                            __m512i* out) const {
    for (int h = 0; h < 2; ++h) {
      const __mmask32 mask = simd::first32(cols > 32 * h ? cols - 32 * h : 0);
      const __m512i even = _mm512_maskz_loadu_epi16(mask, a + 64 * h);
      const __m512i odd = b ? _mm512_maskz_loadu_epi16(mask, b + 64 * h) : _mm512_setzero_si512();
      out[2 * h] = _mm512_unpacklo_epi16(even, odd);
      out[2 * h + 1] = _mm512_unpackhi_epi16(even, odd);
    }
  }
};

struct E4M3Pairs {
  static constexpr int kLines = 1;
  E4M3Step step;
  static constexpr int column(int v, int quarter) { return 16 * quarter + 4 * v; }
  SEEKLINE_MEMBER void join(const std::uint8_t* a, const std::uint8_t* b, std::int64_t cols,
                            __m512i* out) const {
    const __mmask64 mask = simd::first64(cols);
    __m512i even[2], odd[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    step.expand(_mm512_maskz_loadu_epi8(mask, a), even);
    if (b) step.expand(_mm512_maskz_loadu_epi8(mask, b), odd);
    for (int h = 0; h < 2; ++h) {
      out[2 * h] = _mm512_unpacklo_epi16(even[h], odd[h]);
      out[2 * h + 1] = _mm512_unpackhi_epi16(even[h], odd[h]);
    }
  }
};

/// Rows [first, first + rows) of the product share their scales.
struct Segment {
  std::int64_t first, rows;
  std::int64_t pairs() const { return (rows + 1) / 2; }
};

/// Dwords of one token's x: pairs of bf16, for fused pairs as f32, all odd words and then all even ones.
template <Dots kForm>
constexpr std::int64_t x_dwords(std::int64_t pairs) {
  return kForm == Dots::kInstruction ? pairs : 2 * pairs;
}

template <Dots kForm>
SEEKLINE_SIMD void load_x(const TransposedMatmul& m, const Segment& s, std::int32_t* out) {
  for (std::int64_t t = 0; t < m.tokens; ++t, out += x_dwords<kForm>(s.pairs())) {
    const float* x = m.x[t] + (s.first - m.row_begin);
    for (std::int64_t i = 0; i < s.pairs(); i += 8) {
      const __m512 values =
          _mm512_maskz_loadu_ps(simd::first16(s.rows > 2 * i ? s.rows - 2 * i : 0), x + 2 * i);
      const __m256i words = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values));
      const auto whole = static_cast<__mmask8>(simd::first16(s.pairs() - i));
      if constexpr (kForm == Dots::kInstruction) {
        _mm256_mask_storeu_epi32(out + i, whole, words);
      } else {
        const __m512i both = _mm512_castsi256_si512(words);
        _mm256_mask_storeu_ps(out + i, whole, _mm512_castps512_ps256(odd_words(both)));
        _mm256_mask_storeu_ps(out + s.pairs() + i, whole, _mm512_castps512_ps256(even_words(both)));
      }
    }
  }
}

/// Adds pair p of 64 columns times T tokens.
template <Dots kForm, int T>
SEEKLINE_SIMD void add_pair(const __m512i* w, const std::int32_t* const* x, std::int64_t pairs,
                            std::int64_t p, __m512 (&sum)[T][4]) {
  if constexpr (kForm == Dots::kInstruction) {
#pragma GCC unroll 6
    for (int u = 0; u < T; ++u) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(x[u][p]));
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v)
        sum[u][v] = _mm512_dpbf16_ps(sum[u][v], reinterpret_cast<__m512bh>(w[v]), pair);
    }
  } else {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m512 words[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) words[v] = half == 0 ? odd_words(w[v]) : even_words(w[v]);
#pragma GCC unroll 6
      for (int u = 0; u < T; ++u) {
        const __m512 value = _mm512_castsi512_ps(_mm512_set1_epi32(x[u][half * pairs + p]));
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) sum[u][v] = _mm512_fmadd_ps(words[v], value, sum[u][v]);
      }
    }
  }
}

/// 64 columns of a segment: where they begin in its first row, and how many there are from there to the row's
/// end.
struct Columns {
  const std::uint8_t* rows;
  std::int64_t at, left;
};

template <class Pairs>
SEEKLINE_SIMD Columns columns_at(const TransposedMatmul& m, const Segment& s, std::int64_t at) {
  return {m.w.data + s.first * weight_row_bytes(m.w) + at / kCols * 64 * Pairs::kLines, at, m.w.cols - at};
}

template <class Pairs>
SEEKLINE_SIMD void load_pair(const Pairs& join, const Segment& s, const Columns& c, std::int64_t pitch,
                             std::int64_t p, __m512i* w) {
  const std::uint8_t* a = c.rows + 2 * p * pitch;
  join.join(a, 2 * p + 1 < s.rows ? a + pitch : nullptr, c.left, w);
}

template <class Pairs, int T>
SEEKLINE_SIMD void finish(const TransposedMatmul& m, const Segment& s, std::int64_t t, std::int64_t col,
                          const __m512 (&sum)[T][4]) {
  float scale = 1;
  if (m.w.scale_kind == ScaleKind::kF32) {
    const std::int64_t block = s.first / m.w.block_rows * ((m.w.cols + m.w.block_cols - 1) / m.w.block_cols);
    __builtin_memcpy(&scale, m.w.scales + (block + col / m.w.block_cols) * 4, 4);
  }
  const __m128 scales = _mm_set1_ps(scale);
  for (int u = 0; u < T; ++u)
    for (int v = 0; v < 4; ++v) {
      alignas(64) float lanes[16];
      _mm512_store_ps(lanes, sum[u][v]);
      for (int quarter = 0; quarter < 4; ++quarter) {
        const std::int64_t at = col + Pairs::column(v, quarter), left = m.col_end - at;
        const auto mask = static_cast<__mmask8>(left >= 4 ? 0xF : left <= 0 ? 0 : (1 << left) - 1);
        float* y = m.y[t + u] + at;
        __m128 part = _mm_load_ps(lanes + 4 * quarter);
        part = s.first == m.row_begin ? _mm_mul_ps(part, scales)
                                      : _mm_fmadd_ps(part, scales, _mm_maskz_loadu_ps(mask, y));
        _mm_mask_storeu_ps(y, mask, part);
      }
    }
}

template <Dots kForm>
using FormMode = std::conditional_t<kForm == Dots::kInstruction, simd::AnyMode, NoSubnormals>;

/// Few tokens: rows are read in the order they lie in, kPairs pairs at a time over all columns, and the sums
/// of all columns wait in the first cache. `next` is what is read after the segment; it may be null.
template <class Pairs, Dots kForm, int T>
void stream(const TransposedMatmul& m, const Pairs& join, const Segment& s, const std::int32_t* x,
            float* sums, const std::uint8_t* next) {
  const std::int64_t pitch = weight_row_bytes(m.w), tiles = (m.col_end - m.col_begin + kCols - 1) / kCols;
  const std::int32_t* rows[T];
#pragma GCC unroll 4
  for (int u = 0; u < T; ++u) rows[u] = x + u * x_dwords<kForm>(s.pairs());
  {
    [[maybe_unused]] const FormMode<kForm> mode;
    for (std::int64_t first = 0; first < s.pairs(); first += kPairs) {
      const bool on = first + kPairs < s.pairs();
      const std::int64_t end = on ? first + kPairs : s.pairs();
      const std::uint8_t* ahead = on ? columns_at<Pairs>(m, s, m.col_begin).rows + 2 * end * pitch : next;
      for (std::int64_t tile = 0; tile < tiles; ++tile) {
        const Columns c = columns_at<Pairs>(m, s, m.col_begin + tile * kCols);
        float* of_tile = sums + tile * T * 64;
        __m512 sum[T][4];
        simd::clear<T>(sum);
        if (first > 0) simd::load<T>(of_tile, sum);
        for (std::int64_t p = first; p < end; ++p) {
          __m512i w[4];
          load_pair(join, s, c, pitch, p, w);
          add_pair<kForm, T>(w, rows, s.pairs(), p, sum);
        }
        simd::store<T>(sum, of_tile);
        if (!ahead) continue;
        for (std::int64_t r = 2 * kPairs * tile / tiles; r < 2 * kPairs * (tile + 1) / tiles; ++r)
          for (std::int64_t line = 0; line < tiles * Pairs::kLines; ++line)
            simd::fetch_line(ahead + r * pitch + line * 64);
      }
    }
  }
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    __m512 sum[T][4];
    simd::load<T>(sums + tile * T * 64, sum);
    finish<Pairs, T>(m, s, 0, m.col_begin + tile * kCols, sum);
  }
}

/// T tokens from `t` on, times the pairs of 64 columns in a tile.
template <class Pairs, Dots kForm, int T>
void multiply(const TransposedMatmul& m, const Segment& s, std::int64_t col, const __m512i* tile,
              const std::int32_t* x, std::int64_t t) {
  __m512 sum[T][4];
  simd::clear<T>(sum);
  const std::int32_t* rows[T];
#pragma GCC unroll 6
  for (int u = 0; u < T; ++u) rows[u] = x + (t + u) * x_dwords<kForm>(s.pairs());
  {
    [[maybe_unused]] const FormMode<kForm> mode;
    for (std::int64_t p = 0; p < s.pairs(); ++p) {
      __m512i w[4];
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) w[v] = _mm512_load_si512(tile + p * 4 + v);
      add_pair<kForm, T>(w, rows, s.pairs(), p, sum);
    }
  }
  finish<Pairs, T>(m, s, t, col, sum);
}

template <class Pairs, Dots kForm>
void run_segment(const TransposedMatmul& m, const Pairs& join, const Segment& s, const std::uint8_t* next) {
  auto* x = reinterpret_cast<std::int32_t*>(m.scratch);
  std::uint8_t* rest = m.scratch + (m.tokens * x_dwords<kForm>(s.pairs()) * 4 + 63) / 64 * 64;
  load_x<kForm>(m, s, x);
  if (m.tokens <= kFew) {
    static constexpr void (*kStream[])(const TransposedMatmul&, const Pairs&, const Segment&,
                                       const std::int32_t*, float*, const std::uint8_t*) = {
        stream<Pairs, kForm, 1>, stream<Pairs, kForm, 2>, stream<Pairs, kForm, 3>, stream<Pairs, kForm, 4>};
    static_assert(kFew == 4);
    if (m.tokens > 0) kStream[m.tokens - 1](m, join, s, x, reinterpret_cast<float*>(rest), next);
    return;
  }
  static constexpr void (*kMultiply[])(const TransposedMatmul&, const Segment&, std::int64_t, const __m512i*,
                                       const std::int32_t*, std::int64_t) = {
      multiply<Pairs, kForm, 1>, multiply<Pairs, kForm, 2>, multiply<Pairs, kForm, 3>,
      multiply<Pairs, kForm, 4>, multiply<Pairs, kForm, 5>, multiply<Pairs, kForm, 6>};
  static_assert(kTokens == 6);
  auto* tile = reinterpret_cast<__m512i*>(rest);
  const std::int64_t pitch = weight_row_bytes(m.w);
  for (std::int64_t col = m.col_begin; col < m.col_end; col += kCols) {
    const Columns c = columns_at<Pairs>(m, s, col);
    for (std::int64_t p = 0; p < s.pairs(); ++p) {
      __m512i w[4];
      load_pair(join, s, c, pitch, p, w);
      for (int v = 0; v < 4; ++v) _mm512_store_si512(tile + p * 4 + v, w[v]);
    }
    for (std::int64_t t = 0; t < m.tokens; t += kTokens)
      kMultiply[(m.tokens - t < kTokens ? m.tokens - t : kTokens) - 1](m, s, col, tile, x, t);
  }
}

template <class Pairs, Dots kForm>
void run(const TransposedMatmul& m) {
  const Pairs join{};
  for (std::int64_t r = m.row_begin; r < m.row_end;) {
    std::int64_t end = m.row_end;
    if (m.w.scale_kind == ScaleKind::kF32) {
      const std::int64_t block_end = (r / m.w.block_rows + 1) * m.w.block_rows;
      end = block_end < end ? block_end : end;
    }
    const Segment s{r, end - r}, following{end, 0};
    run_segment<Pairs, kForm>(
        m, join, s, end < m.row_end ? columns_at<Pairs>(m, following, m.col_begin).rows : m.prefetch);
    r = end;
  }
}

template <class Pairs>
void run(const TransposedMatmul& m) {
  dots() == Dots::kInstruction ? run<Pairs, Dots::kInstruction>(m) : run<Pairs, Dots::kFusedPairs>(m);
}

}  // namespace

std::int64_t transposed_scratch_bytes(std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
  const std::int64_t pairs = (rows + 1) / 2;
  const std::int64_t sums = kFew * ((cols + kCols - 1) / kCols * kCols) * 4, tile = pairs * 4 * 64;
  const std::int64_t own = tokens * pairs * 8 + 64 + (sums > tile ? sums : tile);  // fewer tokens fit as well
  const std::int64_t plain = avx512::transposed_scratch_bytes(rows, cols, tokens);
  return own > plain ? own : plain;
}

void matmul_transposed(const TransposedMatmul& m) {
  if (m.arithmetic == Arithmetic::kFast) {
    if (m.w.kind == WeightKind::kBF16) return run<BF16Pairs>(m);
    // A tile of 64 columns has one scale.
    if (m.w.kind == WeightKind::kE4M3 && m.w.scale_kind == ScaleKind::kF32 && m.w.block_cols % kCols == 0)
      return run<E4M3Pairs>(m);
  }
  avx512::matmul_transposed(m);
}

}  // namespace seekline::avx512bf16
