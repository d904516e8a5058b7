#include "attention/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/linear.h"

namespace seekline {
namespace {

// Pair index at which a wavelength makes `rotations` turns over the original context.
double yarn_dim(double rotations, int dims, double theta, std::int64_t original) {
  return dims * std::log(static_cast<double>(original) / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

void apply_yarn(std::vector<float>& inverse, int dims, double theta, const RopeScaling& s) {
  if (s.original_context == 0) return;
  const double low = std::max(std::floor(yarn_dim(s.beta_fast, dims, theta, s.original_context)), 0.0);
  const double high = std::min(std::ceil(yarn_dim(s.beta_slow, dims, theta, s.original_context)), dims - 1.0);
  const float width = static_cast<float>(std::max(high - low, 1e-3));
  for (std::size_t i = 0; i < inverse.size(); ++i) {
    const float ramp = std::clamp((static_cast<float>(i) - static_cast<float>(low)) / width, 0.0f, 1.0f);
    inverse[i] = inverse[i] / static_cast<float>(s.factor) * ramp + inverse[i] * (1.0f - ramp);
  }
}

void apply_llama3(std::vector<float>& inverse, const RopeScaling& s) {
  const double low_wavelength = static_cast<double>(s.original_context) / s.low_freq_factor;
  const double high_wavelength = static_cast<double>(s.original_context) / s.high_freq_factor;
  for (float& f : inverse) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < high_wavelength) continue;
    if (wavelength > low_wavelength) {
      f = static_cast<float>(f / s.factor);
      continue;
    }
    const double smooth = (static_cast<double>(s.original_context) / wavelength - s.low_freq_factor) /
                          (s.high_freq_factor - s.low_freq_factor);
    f = static_cast<float>((1 - smooth) * f / s.factor + smooth * f);
  }
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

float yarn_magnitude(const RopeScaling& s) {
  if (s.attention_factor != 0) return static_cast<float>(s.attention_factor);
  if (s.mscale != 0 && s.mscale_all_dim != 0)
    return static_cast<float>(yarn_mscale(s.factor, s.mscale) / yarn_mscale(s.factor, s.mscale_all_dim));
  return 1.0f;
}

}  // namespace

Rope::Rope(int dims, double theta, const RopeScaling& scaling, std::int64_t) {
  inverse_.resize(static_cast<std::size_t>(dims / 2));
  for (int i = 0; i < dims / 2; ++i)
    inverse_[static_cast<std::size_t>(i)] = 1.0f / static_cast<float>(std::pow(theta, 2.0 * i / dims));
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      break;
    case RopeScaling::Kind::kLinear:
      for (float& f : inverse_) f /= static_cast<float>(scaling.factor);
      break;
    case RopeScaling::Kind::kLlama3:
      apply_llama3(inverse_, scaling);
      break;
    case RopeScaling::Kind::kYarn:
      apply_yarn(inverse_, dims, theta, scaling);
      magnitude_ = yarn_magnitude(scaling);
      break;
  }
}

void Rope::angles(std::int64_t position, float* cos, float* sin) const {
  for (std::size_t i = 0; i < inverse_.size(); ++i) {
    const float angle = static_cast<float>(position) * inverse_[i];
    cos[i] = std::cos(angle) * magnitude_;  // of f32, as the released scripts' tables are made
    sin[i] = std::sin(angle) * magnitude_;
  }
}

RopeAngles rope_angles(Compute& compute, const Rope& rope, const std::int64_t* positions,
                       std::int64_t count) {
  const int pairs = rope.pairs();
  float* cos = compute.arena.array<float>(count * pairs);
  float* sin = compute.arena.array<float>(count * pairs);
  for_rows(compute, count,
           [&](std::int64_t r) { rope.angles(positions[r], cos + r * pairs, sin + r * pairs); });
  return {cos, sin, pairs};
}

void rotate(float* x, const float* cos, const float* sin, int pairs, RopeLayout layout, bool inverse) {
  const float sign = inverse ? -1.0f : 1.0f;
  const int step = layout == RopeLayout::kInterleaved ? 2 : 1;
  const int partner = layout == RopeLayout::kInterleaved ? 1 : pairs;
  for (int i = 0; i < pairs; ++i) {
    float& a = x[i * step];
    float& b = x[i * step + partner];
    const float s = sin[i] * sign;
    const float rotated = a * cos[i] - b * s;
    b = a * s + b * cos[i];
    a = rotated;
  }
}

}  // namespace seekline
