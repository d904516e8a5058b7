// Products along the rows of a weight, as sums of pairs of bf16: lanes are columns, and a pair is two
// neighbouring rows. Rows that share a block of f32 scales are one sum, times the scale, added to the
// output's; without scales all rows are one sum.
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kCols = 64;   // of one tile: four vectors of pairs
constexpr int kTokens = 6;  // of one micro-kernel: 6 x 4 sums, 4 operands, 1 broadcast

/// 64 columns of two rows -> four vectors of pairs. `column(v, quarter)` says where the four lanes of a
/// quarter belong.
struct BF16Pairs {
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

/// x of a segment as pairs of bf16: [tokens][pairs] dwords.
SEEKLINE_SIMD void load_x(const TransposedMatmul& m, const Segment& s, std::int32_t* out) {
  for (std::int64_t t = 0; t < m.tokens; ++t) {
    auto* words = reinterpret_cast<std::uint16_t*>(out + t * s.pairs());
    const float* x = m.x[t] + (s.first - m.row_begin);
    for (std::int64_t i = 0; i < 2 * s.pairs(); i += 16) {
      const __m512 values = _mm512_maskz_loadu_ps(simd::first16(s.rows > i ? s.rows - i : 0), x + i);
      _mm256_mask_storeu_epi16(words + i, simd::first16(2 * s.pairs() - i),
                               reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(values)));
    }
  }
}

template <class Pairs, int T>
void micro(const TransposedMatmul& m, const Segment& s, const std::int32_t* x, std::int64_t t,
           std::int64_t col, const __m512i* tile, float scale) {
  __m512 sum[T][4];
#pragma GCC unroll 6
  for (int u = 0; u < T; ++u)
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) sum[u][v] = _mm512_setzero_ps();
  const std::int32_t* rows[T];
#pragma GCC unroll 6
  for (int u = 0; u < T; ++u) rows[u] = x + (t + u) * s.pairs();
  for (std::int64_t p = 0; p < s.pairs(); ++p) {
    __m512bh w[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) w[v] = reinterpret_cast<__m512bh>(_mm512_load_si512(tile + p * 4 + v));
#pragma GCC unroll 6
    for (int u = 0; u < T; ++u) {
      const auto pair = reinterpret_cast<__m512bh>(_mm512_set1_epi32(rows[u][p]));
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) sum[u][v] = _mm512_dpbf16_ps(sum[u][v], w[v], pair);
    }
  }
  for (int u = 0; u < T; ++u)
    for (int v = 0; v < 4; ++v) {
      alignas(64) float lanes[16];
      _mm512_store_ps(lanes, sum[u][v]);
      for (int quarter = 0; quarter < 4; ++quarter) {
        const std::int64_t at = col + Pairs::column(v, quarter), left = m.col_end - at;
        const auto mask = static_cast<__mmask8>(left >= 4 ? 0xF : left <= 0 ? 0 : (1 << left) - 1);
        float* y = m.y[t + u] + at;
        __m128 part = _mm_load_ps(lanes + 4 * quarter);
        const __m128 s4 = _mm_set1_ps(scale);
        part = s.first == m.row_begin ? _mm_mul_ps(part, s4)
                                      : _mm_fmadd_ps(part, s4, _mm_maskz_loadu_ps(mask, y));
        _mm_mask_storeu_ps(y, mask, part);
      }
    }
}

template <class Pairs>
void run_segment(const TransposedMatmul& m, const Pairs& join, const Segment& s) {
  auto* x = reinterpret_cast<std::int32_t*>(m.scratch);
  auto* tile = reinterpret_cast<__m512i*>(m.scratch + (m.tokens * s.pairs() * 4 + 63) / 64 * 64);
  load_x(m, s, x);
  const std::int64_t bytes = weight_row_bytes(m.w), element = m.w.kind == WeightKind::kBF16 ? 2 : 1;
  const std::uint8_t* first = m.w.data + s.first * bytes;
  for (std::int64_t col = m.col_begin; col < m.col_end; col += kCols) {
    float scale = 1;
    if (m.w.scale_kind == ScaleKind::kF32) {
      const std::int64_t block =
          s.first / m.w.block_rows * ((m.w.cols + m.w.block_cols - 1) / m.w.block_cols);
      __builtin_memcpy(&scale, m.w.scales + (block + col / m.w.block_cols) * 4, 4);
    }
    for (std::int64_t p = 0; p < s.pairs(); ++p) {
      const std::uint8_t* a = first + 2 * p * bytes + col * element;
      __m512i v[4];
      join.join(a, 2 * p + 1 < s.rows ? a + bytes : nullptr, m.w.cols - col, v);
      for (int i = 0; i < 4; ++i) _mm512_store_si512(tile + p * 4 + i, v[i]);
    }
    std::int64_t t = 0;
    for (; t + kTokens <= m.tokens; t += kTokens) micro<Pairs, kTokens>(m, s, x, t, col, tile, scale);
    for (; t < m.tokens; ++t) micro<Pairs, 1>(m, s, x, t, col, tile, scale);
  }
}

template <class Pairs>
void run(const TransposedMatmul& m) {
  const Pairs join{};
  for (std::int64_t r = m.row_begin; r < m.row_end;) {
    std::int64_t end = m.row_end;
    if (m.w.scale_kind == ScaleKind::kF32) {
      const std::int64_t block_end = (r / m.w.block_rows + 1) * m.w.block_rows;
      end = block_end < end ? block_end : end;
    }
    run_segment(m, join, {r, end - r});
    r = end;
  }
}

}  // namespace

std::int64_t transposed_scratch_bytes(std::int64_t rows, std::int64_t cols, std::int64_t tokens) {
  const std::int64_t pairs = (rows + 1) / 2;
  const std::int64_t own = tokens * pairs * 4 + 64 + pairs * 4 * 64;
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
