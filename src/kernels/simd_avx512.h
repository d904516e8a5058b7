// Small pieces that the AVX-512 files share. Everything is static and always inlined (kernels/levels.h says
// why).
#pragma once

#include "kernels/simd.h"

namespace seekline::simd {

/// What products need to be set while they are added: nothing.
struct AnyMode {};

/// The first n of 16, 32 or 64 lanes; n may be anything from 0 up.
SEEKLINE_SIMD __mmask16 first16(std::int64_t n) {
  return static_cast<__mmask16>(n >= 16 ? 0xFFFFu : (1u << n) - 1u);
}
SEEKLINE_SIMD __mmask32 first32(std::int64_t n) {
  return static_cast<__mmask32>(n >= 32 ? 0xFFFFFFFFu : (1u << n) - 1u);
}
SEEKLINE_SIMD __mmask64 first64(std::int64_t n) { return n >= 64 ? ~0ull : n <= 0 ? 0 : (1ull << n) - 1; }

/// Lane sums of four vectors, each in one fixed tree: the four 128-bit quarters (0 + 2) + (1 + 3), then the
/// four lanes of the quarter (0 + 2) + (1 + 3).
SEEKLINE_SIMD __m128 reduce4(__m512 a, __m512 b, __m512 c, __m512 d) {
  const auto quarter = [](__m512 v) __attribute__((always_inline)) {
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    return _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  };
  const __m128 qa = quarter(a), qb = quarter(b), qc = quarter(c), qd = quarter(d);
  // ab = a0+a2, a1+a3, b0+b2, b1+b3
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(qa, qb), _mm_movehl_ps(qb, qa));
  const __m128 cd = _mm_add_ps(_mm_movelh_ps(qc, qd), _mm_movehl_ps(qd, qc));
  return _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD));
}

/// Lane sums of four vectors of each of T tokens, T <= 4, in the same tree: quarter t of the result is
/// reduce4(sum[t]). What is not there repeats the last token.
template <int T>
SEEKLINE_SIMD __m512 reduce4(const __m512 (*sum)[4]) {
  __m512 r[4];  // of vector i, quarter t: the quarters of token t
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto halves = [](__m512 a, __m512 b) __attribute__((always_inline)) {
      return _mm512_add_ps(_mm512_mask_blend_ps(0xFF00, a, b), _mm512_shuffle_f32x4(a, b, 0x4E));
    };
    const __m512 first = halves(sum[0][i], sum[T > 1 ? 1 : 0][i]);
    const __m512 second = T > 2 ? halves(sum[T > 2 ? 2 : 0][i], sum[T > 3 ? 3 : T - 1][i]) : first;
    r[i] =
        _mm512_add_ps(_mm512_shuffle_f32x4(first, second, 0x88), _mm512_shuffle_f32x4(first, second, 0xDD));
  }
  const auto lanes = [](__m512 a, __m512 b) __attribute__((always_inline)) {  // a0+a2, a1+a3, b0+b2, b1+b3
    const __m512 crossed =
        _mm512_castpd_ps(_mm512_shuffle_pd(_mm512_castps_pd(a), _mm512_castps_pd(b), 0x55));
    return _mm512_add_ps(_mm512_mask_blend_ps(0xCCCC, a, b), crossed);
  };
  const __m512 ab = lanes(r[0], r[1]), cd = lanes(r[2], r[3]);
  return _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x88), _mm512_shuffle_ps(ab, cd, 0xDD));
}

SEEKLINE_SIMD float reduce(__m512 v) {
  const __m512 zero = _mm512_setzero_ps();
  return _mm_cvtss_f32(reduce4(v, zero, zero, zero));
}

/// Sums of T tokens and 4 vectors or rows, and where they wait: [T][4][16] floats.
template <int T>
SEEKLINE_SIMD void clear(__m512 (&sum)[T][4]) {
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[t][i] = _mm512_setzero_ps();
}

template <int T>
SEEKLINE_SIMD void load(const float* from, __m512 (&sum)[T][4]) {
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) sum[t][i] = _mm512_load_ps(from + (t * 4 + i) * 16);
}

template <int T>
SEEKLINE_SIMD void store(const __m512 (&sum)[T][4], float* to) {
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) _mm512_store_ps(to + (t * 4 + i) * 16, sum[t][i]);
}

/// Transposes a 16 x 16 matrix of 32-bit lanes in registers.
SEEKLINE_SIMD void transpose16(__m512i* r) {
  __m512i t[16];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_epi32(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_epi32(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = _mm512_unpacklo_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = _mm512_unpackhi_epi64(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = _mm512_unpacklo_epi64(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = _mm512_unpackhi_epi64(t[4 * i + 1], t[4 * i + 3]);
  }
  // r[4g + c]: in quarter q, column 4q + c of rows 4g .. 4g + 3.
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0x88);
    t[4 + c] = _mm512_shuffle_i32x4(r[c], r[4 + c], 0xDD);
    t[8 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0x88);
    t[12 + c] = _mm512_shuffle_i32x4(r[8 + c], r[12 + c], 0xDD);
  }
#pragma GCC unroll 4
  for (int c = 0; c < 4; ++c) {
    r[c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0x88);
    r[8 + c] = _mm512_shuffle_i32x4(t[c], t[8 + c], 0xDD);
    r[4 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0x88);
    r[12 + c] = _mm512_shuffle_i32x4(t[4 + c], t[12 + c], 0xDD);
  }
}

/// e^x to 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, times 2^n.
SEEKLINE_SIMD __m512 exp(__m512 x) {
  // min and max give their second operand where one is NaN, so x stands second.
  x = _mm512_min_ps(_mm512_set1_ps(89.0f), _mm512_max_ps(_mm512_set1_ps(-104.0f), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(1.44269504f)), 0);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693145751953125f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.42860677e-6f), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4f);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1f));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1f));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(p, n);
}

SEEKLINE_SIMD __m512 sigmoid(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0f);
  return _mm512_div_ps(one, _mm512_add_ps(one, exp(_mm512_sub_ps(_mm512_setzero_ps(), x))));
}

}  // namespace seekline::simd
