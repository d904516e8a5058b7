#include "kernels/avx2.h"
#include "kernels/simd_avx2.h"

// Sums in 16 lanes as two vectors of 8: lane i takes elements i mod 16.
namespace seekline::avx2 {
namespace {

/// body(i, mask) for every 8 elements from i, with the last lanes masked off.
template <typename Body>
SEEKLINE_SIMD void for_lanes(std::int64_t n, Body body) {
  for (std::int64_t i = 0; i < n; i += 8) body(i, simd8::first8(n - i));
}

SEEKLINE_SIMD __m256 load(__m256i m, const float* p) { return _mm256_maskload_ps(p, m); }
SEEKLINE_SIMD void store(__m256i m, float* p, __m256 v) { _mm256_maskstore_ps(p, m, v); }

}  // namespace

float dot(const float* a, const float* b, std::int64_t n) {
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    sum[i / 8 % 2] = _mm256_fmadd_ps(load(m, a + i), load(m, b + i), sum[i / 8 % 2]);
  });
  return simd8::reduce(_mm256_add_ps(sum[0], sum[1]));
}

float dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  __m256 sum[2] = {_mm256_setzero_ps(), _mm256_setzero_ps()};
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    sum[i / 8 % 2] =
        _mm256_fmadd_ps(_mm256_mul_ps(load(m, a + i), load(m, b + i)), load(m, c + i), sum[i / 8 % 2]);
  });
  return simd8::reduce(_mm256_add_ps(sum[0], sum[1]));
}

double dot_exact(const float* a, const float* b, std::int64_t n) {
  // Four vectors of four: lane i takes elements i mod 16.
  __m256d sum[4] = {_mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd(), _mm256_setzero_pd()};
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    const __m256 va = load(m, a + i), vb = load(m, b + i);
    const std::int64_t at = i / 8 % 2 * 2;
    sum[at] = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm256_castps256_ps128(va)),
                              _mm256_cvtps_pd(_mm256_castps256_ps128(vb)), sum[at]);
    sum[at + 1] = _mm256_fmadd_pd(_mm256_cvtps_pd(_mm256_extractf128_ps(va, 1)),
                                  _mm256_cvtps_pd(_mm256_extractf128_ps(vb, 1)), sum[at + 1]);
  });
  const __m256d four = _mm256_add_pd(_mm256_add_pd(sum[0], sum[2]), _mm256_add_pd(sum[1], sum[3]));
  const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
  return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

float sum_squares(const float* x, std::int64_t n) { return static_cast<float>(dot_exact(x, x, n)); }

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* out) {
  const double mean = dot_exact(x, x, n) / static_cast<double>(n) + static_cast<double>(eps);
  const __m256 rstd = _mm256_set1_ps(static_cast<float>(1.0 / _mm_cvtsd_f64(_mm_sqrt_pd(_mm_set1_pd(mean)))));
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    __m256 y = _mm256_mul_ps(load(m, x + i), rstd);
    if (weight) y = _mm256_mul_ps(y, load(m, weight + i));
    store(m, out + i, y);
  });
}

void axpy(float a, const float* x, std::int64_t n, float* y) {
  const __m256 va = _mm256_set1_ps(a);
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    store(m, y + i, _mm256_fmadd_ps(va, load(m, x + i), load(m, y + i)));
  });
}

void swiglu(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out) {
  const __m256 high = _mm256_set1_ps(limit), low = _mm256_set1_ps(-limit), w = _mm256_set1_ps(weight);
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    __m256 g = load(m, gate + i), u = load(m, up + i);
    if (limit > 0) {  // NaN stands second in min and max, and stays
      g = _mm256_min_ps(high, g);
      u = _mm256_min_ps(high, _mm256_max_ps(low, u));
    }
    const __m256 silu = _mm256_mul_ps(g, simd8::sigmoid(g));
    store(m, out + i, _mm256_mul_ps(_mm256_mul_ps(silu, u), w));
  });
}

void exp(const float* x, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __m256i m) { store(m, out + i, simd8::exp(load(m, x + i))); });
}

void sigmoid(const float* x, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __m256i m) { store(m, out + i, simd8::sigmoid(load(m, x + i))); });
}

void stream_collapse(const float* h, const float* pre, int streams, std::int64_t n, float* out) {
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    __m256 sum = _mm256_mul_ps(_mm256_set1_ps(pre[0]), load(m, h + i));
    for (int k = 1; k < streams; ++k)
      sum = _mm256_fmadd_ps(_mm256_set1_ps(pre[k]), load(m, h + k * n + i), sum);
    store(m, out + i, sum);
  });
}

void stream_mix(float* h, const float* y, const float* post, const float* comb, int streams, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, __m256i m) {
    __m256 old[16];
    for (int j = 0; j < streams; ++j) old[j] = load(m, h + j * n + i);
    const __m256 vy = load(m, y + i);
    for (int k = 0; k < streams; ++k) {
      __m256 sum = _mm256_mul_ps(_mm256_set1_ps(post[k]), vy);
      for (int j = 0; j < streams; ++j)
        sum = _mm256_fmadd_ps(_mm256_set1_ps(comb[j * streams + k]), old[j], sum);
      store(m, h + k * n + i, sum);
    }
  });
}

}  // namespace seekline::avx2
