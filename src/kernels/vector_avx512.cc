#include "kernels/avx512.h"
#include "kernels/simd_avx512.h"

namespace seekline::avx512 {
namespace {

using simd::first16;

/// body(i, mask) for every 16 elements from i, with the last lanes masked off.
template <typename Body>
SEEKLINE_SIMD void for_lanes(std::int64_t n, Body body) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) body(i, static_cast<__mmask16>(0xFFFF));
  if (i < n) body(i, first16(n - i));
}

SEEKLINE_SIMD __m512 load(__mmask16 m, const float* p) { return _mm512_maskz_loadu_ps(m, p); }
SEEKLINE_SIMD void store(__mmask16 m, float* p, __m512 v) { _mm512_mask_storeu_ps(p, m, v); }

}  // namespace

float dot(const float* a, const float* b, std::int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for_lanes(n,
            [&](std::int64_t i, __mmask16 m) { sum = _mm512_fmadd_ps(load(m, a + i), load(m, b + i), sum); });
  return simd::reduce(sum);
}

float dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  __m512 sum = _mm512_setzero_ps();
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    sum = _mm512_fmadd_ps(_mm512_mul_ps(load(m, a + i), load(m, b + i)), load(m, c + i), sum);
  });
  return simd::reduce(sum);
}

double dot_exact(const float* a, const float* b, std::int64_t n) {
  __m512d low = _mm512_setzero_pd(), high = _mm512_setzero_pd();
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    const __m512 va = load(m, a + i), vb = load(m, b + i);
    low = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(va)),
                          _mm512_cvtps_pd(_mm512_castps512_ps256(vb)), low);
    high = _mm512_fmadd_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(va, 1)),
                           _mm512_cvtps_pd(_mm512_extractf32x8_ps(vb, 1)), high);
  });
  const __m512d eight = _mm512_add_pd(low, high);
  const __m256d four = _mm256_add_pd(_mm512_castpd512_pd256(eight), _mm512_extractf64x4_pd(eight, 1));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

float sum_squares(const float* x, std::int64_t n) { return static_cast<float>(dot_exact(x, x, n)); }

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* out) {
  const double mean = dot_exact(x, x, n) / static_cast<double>(n) + static_cast<double>(eps);
  const __m512 rstd = _mm512_set1_ps(static_cast<float>(1.0 / _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set1_pd(mean)))));
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    __m512 y = _mm512_mul_ps(load(m, x + i), rstd);
    if (weight) y = _mm512_mul_ps(y, load(m, weight + i));
    store(m, out + i, y);
  });
}

void axpy(float a, const float* x, std::int64_t n, float* y) {
  const __m512 va = _mm512_set1_ps(a);
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    store(m, y + i, _mm512_fmadd_ps(va, load(m, x + i), load(m, y + i)));
  });
}

void swiglu(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out) {
  const __m512 high = _mm512_set1_ps(limit), low = _mm512_set1_ps(-limit), w = _mm512_set1_ps(weight);
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    __m512 g = load(m, gate + i), u = load(m, up + i);
    if (limit > 0) {  // NaN stands second in min and max, and stays
      g = _mm512_min_ps(high, g);
      u = _mm512_min_ps(high, _mm512_max_ps(low, u));
    }
    const __m512 silu = _mm512_mul_ps(g, simd::sigmoid(g));
    store(m, out + i, _mm512_mul_ps(_mm512_mul_ps(silu, u), w));
  });
}

void exp(const float* x, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __mmask16 m) { store(m, out + i, simd::exp(load(m, x + i))); });
}

void sigmoid(const float* x, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __mmask16 m) { store(m, out + i, simd::sigmoid(load(m, x + i))); });
}

void stream_collapse(const float* h, const float* pre, int streams, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    __m512 sum = _mm512_mul_ps(_mm512_set1_ps(pre[0]), load(m, h + i));
    for (int k = 1; k < streams; ++k)
      sum = _mm512_fmadd_ps(_mm512_set1_ps(pre[k]), load(m, h + k * n + i), sum);
    store(m, out + i, sum);
  });
}

void stream_mix(float* h, const float* y, const float* post, const float* comb, int streams, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, __mmask16 m) {
    __m512 old[16];
    for (int j = 0; j < streams; ++j) old[j] = load(m, h + j * n + i);
    const __m512 vy = load(m, y + i);
    for (int k = 0; k < streams; ++k) {
      __m512 sum = _mm512_mul_ps(_mm512_set1_ps(post[k]), vy);
      for (int j = 0; j < streams; ++j)
        sum = _mm512_fmadd_ps(_mm512_set1_ps(comb[j * streams + k]), old[j], sum);
      store(m, h + k * n + i, sum);
    }
  });
}

}  // namespace seekline::avx512
