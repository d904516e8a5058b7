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

constexpr int kCols = 64;       // of one tile: four vectors of pairs
constexpr int kTokens = 6;      // of one micro-kernel: 6 x 4 sums, 4 operands, 1 broadcast
constexpr int kFew = 4;         // tokens that take pairs as they are decoded, without a tile in memory
constexpr int kPairsAhead = 8;  // rows are as far apart as the latent is wide: no CPU follows by itself

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
      const __m512 values = _mm512_maskz_loadu_ps(simd::first16(s.rows > 2 * i ? s.rows - 2 * i : 0), x + 2 * i);
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
SEEKLINE_SIMD void add_pair(const __m512i* w, const std::int32_t* const* x, std::int64_t pairs, std::int64_t p,
                            __m512 (&sum)[T][4]) {
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

/// 64 columns of a segment.
struct Columns {
  const std::uint8_t* rows;   ///< where they begin in the segment's first row
  const std::uint8_t* ahead;  ///< where the columns begin that come next
  std::int64_t pitch;         ///< bytes from row to row
  std::int64_t at, left;      ///< the first, and how many there are from it to the row's end
  float scale;
};

template <class Pairs>
SEEKLINE_SIMD void load_pair(const Pairs& join, const Segment& s, const Columns& c, std::int64_t p, __m512i* w) {
  const std::uint8_t* a = c.rows + 2 * p * c.pitch;
  const std::int64_t next = p + kPairsAhead;
  const std::uint8_t* ahead =
      next < s.pairs() ? c.rows + 2 * next * c.pitch : c.ahead + 2 * (next - s.pairs()) * c.pitch;
#pragma GCC unroll 2
  for (int line = 0; line < Pairs::kLines; ++line) {
    _mm_prefetch(ahead + 64 * line, _MM_HINT_T0);
    _mm_prefetch(ahead + c.pitch + 64 * line, _MM_HINT_T0);
  }
  join.join(a, 2 * p + 1 < s.rows ? a + c.pitch : nullptr, c.left, w);
}

template <class Pairs, int T>
SEEKLINE_SIMD void finish(const TransposedMatmul& m, const Segment& s, std::int64_t t, const Columns& c,
                          const __m512 (&sum)[T][4]) {
  for (int u = 0; u < T; ++u)
    for (int v = 0; v < 4; ++v) {
      alignas(64) float lanes[16];
      _mm512_store_ps(lanes, sum[u][v]);
      for (int quarter = 0; quarter < 4; ++quarter) {
        const std::int64_t at = c.at + Pairs::column(v, quarter), left = m.col_end - at;
        const auto mask = static_cast<__mmask8>(left >= 4 ? 0xF : left <= 0 ? 0 : (1 << left) - 1);
        float* y = m.y[t + u] + at;
        __m128 part = _mm_load_ps(lanes + 4 * quarter);
        const __m128 scale = _mm_set1_ps(c.scale);
        part = s.first == m.row_begin ? _mm_mul_ps(part, scale)
                                      : _mm_fmadd_ps(part, scale, _mm_maskz_loadu_ps(mask, y));
        _mm_mask_storeu_ps(y, mask, part);
      }
    }
}

/// T tokens from `t` on. With a tile, the columns' pairs lie there; without one they are decoded here.
template <class Pairs, Dots kForm, bool kTile, int T>
void micro(const TransposedMatmul& m, const Pairs& join, const Segment& s, const Columns& c,
           const __m512i* tile, const std::int32_t* x, std::int64_t t) {
  __m512 sum[T][4];
  const std::int32_t* rows[T];
#pragma GCC unroll 6
  for (int u = 0; u < T; ++u) {
    rows[u] = x + (t + u) * x_dwords<kForm>(s.pairs());
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sum[u][v] = _mm512_setzero_ps();
  }
  {
    [[maybe_unused]] const std::conditional_t<kForm == Dots::kInstruction, simd::AnyMode, NoSubnormals> mode;
    for (std::int64_t p = 0; p < s.pairs(); ++p) {
      __m512i w[4];
      if constexpr (kTile) {
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) w[v] = _mm512_load_si512(tile + p * 4 + v);
      } else {
        load_pair(join, s, c, p, w);
      }
      add_pair<kForm, T>(w, rows, s.pairs(), p, sum);
    }
  }
  finish<Pairs, T>(m, s, t, c, sum);
}

template <class Pairs, Dots kForm, bool kTile>
void micro_of(std::int64_t tokens, const TransposedMatmul& m, const Pairs& join, const Segment& s,
              const Columns& c, const __m512i* tile, const std::int32_t* x, std::int64_t t) {
  switch (tokens) {
    case 1:
      return micro<Pairs, kForm, kTile, 1>(m, join, s, c, tile, x, t);
    case 2:
      return micro<Pairs, kForm, kTile, 2>(m, join, s, c, tile, x, t);
    case 3:
      return micro<Pairs, kForm, kTile, 3>(m, join, s, c, tile, x, t);
    case 4:
      return micro<Pairs, kForm, kTile, 4>(m, join, s, c, tile, x, t);
    default:
      if constexpr (kTile) {
        if (tokens == 5) return micro<Pairs, kForm, kTile, 5>(m, join, s, c, tile, x, t);
        return micro<Pairs, kForm, kTile, kTokens>(m, join, s, c, tile, x, t);
      }
  }
}

template <class Pairs, Dots kForm>
void run_segment(const TransposedMatmul& m, const Pairs& join, const Segment& s, const std::uint8_t* next) {
  auto* x = reinterpret_cast<std::int32_t*>(m.scratch);
  auto* tile =
      reinterpret_cast<__m512i*>(m.scratch + (m.tokens * x_dwords<kForm>(s.pairs()) * 4 + 63) / 64 * 64);
  load_x<kForm>(m, s, x);
  constexpr std::int64_t kBytes = 64 * Pairs::kLines;  // of 64 columns
  Columns c;
  c.pitch = weight_row_bytes(m.w);
  c.scale = 1;
  for (c.at = m.col_begin; c.at < m.col_end; c.at += kCols) {
    c.left = m.w.cols - c.at;
    c.rows = m.w.data + s.first * c.pitch + c.at / kCols * kBytes;
    c.ahead = c.at + kCols < m.col_end ? c.rows + kBytes : next ? next : c.rows;
    if (m.w.scale_kind == ScaleKind::kF32) {
      const std::int64_t block =
          s.first / m.w.block_rows * ((m.w.cols + m.w.block_cols - 1) / m.w.block_cols);
      __builtin_memcpy(&c.scale, m.w.scales + (block + c.at / m.w.block_cols) * 4, 4);
    }
    if (m.tokens <= kFew) {
      micro_of<Pairs, kForm, false>(m.tokens, m, join, s, c, nullptr, x, 0);
      continue;
    }
    for (std::int64_t p = 0; p < s.pairs(); ++p) {
      __m512i w[4];
      load_pair(join, s, c, p, w);
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) _mm512_store_si512(tile + p * 4 + v, w[v]);
    }
    for (std::int64_t t = 0; t < m.tokens; t += kTokens)
      micro_of<Pairs, kForm, true>(m.tokens - t, m, join, s, c, tile, x, t);
  }
}

template <class Pairs, Dots kForm>
void run(const TransposedMatmul& m) {
  const Pairs join{};
  const std::int64_t pitch = weight_row_bytes(m.w);
  for (std::int64_t r = m.row_begin; r < m.row_end;) {
    std::int64_t end = m.row_end;
    if (m.w.scale_kind == ScaleKind::kF32) {
      const std::int64_t block_end = (r / m.w.block_rows + 1) * m.w.block_rows;
      end = block_end < end ? block_end : end;
    }
    const std::uint8_t* next =
        end < m.row_end ? m.w.data + end * pitch + m.col_begin / kCols * 64 * Pairs::kLines : m.prefetch;
    run_segment<Pairs, kForm>(m, join, {r, end - r}, next);
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
  const std::int64_t own = tokens * pairs * 8 + 64 + pairs * 4 * 64;
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
