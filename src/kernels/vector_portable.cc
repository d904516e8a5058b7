#include <algorithm>
#include <bit>
#include <cmath>

#include "core/check.h"
#include "kernels/portable.h"

namespace seekline::portable {
namespace {

/// Sums of 16 lanes: lane i takes elements i mod 16; then halves are added to halves.
struct Lanes {
  float lane[16] = {};

  float total() {
    for (int half = 8; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
  }
};

/// term(i) summed over [0, n) in the lane order.
template <typename Term>
float lane_sum(std::int64_t n, Term term) {
  Lanes sum;
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    for (int l = 0; l < 16; ++l) sum.lane[l] += term(i + l);
  for (int l = 0; i + l < n; ++l) sum.lane[l] += term(i + l);
  return sum.total();
}

/// e^x to 2 ulp: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial in r, times 2^n in two exact steps.
float exp_value(float x) {
  constexpr float kLog2E = 1.44269504f, kLn2High = 0.693145751953125f, kLn2Low = 1.42860677e-6f;
  if (std::isnan(x)) return x;
  x = std::clamp(x, -104.0f, 89.0f);  // beyond: 0 and infinity
  const float n = std::nearbyint(x * kLog2E);
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = (p * (r * r) + r) + 1.0f;
  const int e = static_cast<int>(n), half = e / 2;
  const auto power = [](int k) { return std::bit_cast<float>(static_cast<std::uint32_t>(k + 127) << 23); };
  return p * power(half) * power(e - half);
}

float sigmoid_value(float x) { return 1.0f / (1.0f + exp_value(-x)); }

constexpr int kMostStreams = 16;

}  // namespace

float dot(const float* a, const float* b, std::int64_t n) {
  return lane_sum(n, [&](std::int64_t i) { return a[i] * b[i]; });
}

float dot3(const float* a, const float* b, const float* c, std::int64_t n) {
  return lane_sum(n, [&](std::int64_t i) { return a[i] * b[i] * c[i]; });
}

double dot_exact(const float* a, const float* b, std::int64_t n) {
  double lane[16] = {};
  for (std::int64_t i = 0; i < n; ++i) lane[i % 16] += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  for (int half = 8; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}

float sum_squares(const float* x, std::int64_t n) { return static_cast<float>(dot_exact(x, x, n)); }

void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* out) {
  const double mean = dot_exact(x, x, n) / static_cast<double>(n) + static_cast<double>(eps);
  const float rstd = static_cast<float>(1.0 / std::sqrt(mean));
  for (std::int64_t i = 0; i < n; ++i) out[i] = weight ? x[i] * rstd * weight[i] : x[i] * rstd;
}

void axpy(float a, const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void swiglu(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    float g = gate[i], u = up[i];
    if (limit > 0) {
      g = std::min(g, limit);
      u = std::clamp(u, -limit, limit);
    }
    out[i] = g * sigmoid_value(g) * u * weight;
  }
}

void exp(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = exp_value(x[i]);
}

void sigmoid(const float* x, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = sigmoid_value(x[i]);
}

void stream_collapse(const float* h, const float* pre, int streams, std::int64_t n, float* out) {
  for (std::int64_t d = 0; d < n; ++d) {
    float sum = pre[0] * h[d];
    for (int k = 1; k < streams; ++k) sum += pre[k] * h[k * n + d];
    out[d] = sum;
  }
}

void stream_mix(float* h, const float* y, const float* post, const float* comb, int streams, std::int64_t n) {
  SEEKLINE_CHECK(streams <= kMostStreams, "more residual streams than a kernel holds");
  float old[kMostStreams];
  for (std::int64_t d = 0; d < n; ++d) {
    for (int j = 0; j < streams; ++j) old[j] = h[j * n + d];
    for (int k = 0; k < streams; ++k) {
      float sum = post[k] * y[d];
      for (int j = 0; j < streams; ++j) sum += comb[j * streams + k] * old[j];
      h[k * n + d] = sum;
    }
  }
}

}  // namespace seekline::portable
