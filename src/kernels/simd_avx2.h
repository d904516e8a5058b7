// Small pieces that the AVX2 files share.
#pragma once

#include "kernels/simd.h"

namespace seekline::simd8 {

/// Lane sums of four vectors, each in one fixed tree: halves, then (0 + 2) + (1 + 3).
SEEKLINE_SIMD __m128 reduce4(__m256 a, __m256 b, __m256 c, __m256 d) {
  const auto half = [](__m256 v) __attribute__((always_inline)) {
    return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  };
  const __m128 ha = half(a), hb = half(b), hc = half(c), hd = half(d);
  const __m128 ab = _mm_add_ps(_mm_movelh_ps(ha, hb), _mm_movehl_ps(hb, ha));
  const __m128 cd = _mm_add_ps(_mm_movelh_ps(hc, hd), _mm_movehl_ps(hd, hc));
  return _mm_add_ps(_mm_shuffle_ps(ab, cd, 0x88), _mm_shuffle_ps(ab, cd, 0xDD));
}

SEEKLINE_SIMD float reduce(__m256 v) {
  const __m256 zero = _mm256_setzero_ps();
  return _mm_cvtss_f32(reduce4(v, zero, zero, zero));
}

/// n rounded up to whole vectors.
SEEKLINE_SIMD int padded8(int n) { return (n + 7) / 8 * 8; }

/// All lanes of the first n set, n from 0 up.
SEEKLINE_SIMD __m256i first8(std::int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n > 8 ? 8 : static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

/// e^x to 2 ulp; as in simd_avx512.h, with 2^n in two exact steps.
SEEKLINE_SIMD __m256 exp(__m256 x) {
  x = _mm256_min_ps(_mm256_set1_ps(89.0f), _mm256_max_ps(_mm256_set1_ps(-104.0f), x));  // NaN stays
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504f)),
                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0.693145751953125f), x);
  r = _mm256_fnmadd_ps(n, _mm256_set1_ps(1.42860677e-6f), r);
  __m256 p = _mm256_set1_ps(1.9875691500e-4f);
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.3981999507e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(8.3334519073e-3f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(4.1665795894e-2f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.6666665459e-1f));
  p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(5.0000001201e-1f));
  p = _mm256_add_ps(_mm256_fmadd_ps(p, _mm256_mul_ps(r, r), r), _mm256_set1_ps(1.0f));
  const __m256i e = _mm256_cvtps_epi32(n), low = _mm256_srai_epi32(e, 1), high = _mm256_sub_epi32(e, low);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 a = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(low, bias), 23));
  const __m256 b = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(high, bias), 23));
  return _mm256_mul_ps(_mm256_mul_ps(p, a), b);
}

SEEKLINE_SIMD __m256 sigmoid(__m256 x) {
  const __m256 one = _mm256_set1_ps(1.0f);
  return _mm256_div_ps(one, _mm256_add_ps(one, exp(_mm256_sub_ps(_mm256_setzero_ps(), x))));
}

}  // namespace seekline::simd8
