#include "checkpoint/synth_formula.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/check.h"

namespace seekline {
namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
  z = (z ^ z >> 27) * 0x94d049bb133111eb;
  return z ^ z >> 31;
}

std::uint64_t word(std::uint64_t key, std::int64_t index) {
  return mix(key + (static_cast<std::uint64_t>(index) + 1) * kStep);
}

int scale_exponent(const TensorSpec& spec) {
  if (spec.fan_in == 0) return 0;
  const double spread = spec.role == TensorRole::kE2M1Scale ? 2.93 : 0.75;
  return static_cast<int>(
      std::floor(std::log2(1 / (std::sqrt(static_cast<double>(spec.fan_in)) * spread)) + 0.5));
}

struct Distribution {
  double bias, amp;
};

Distribution distribution(const TensorSpec& spec, int exponent) {
  switch (spec.role) {
    case TensorRole::kLinear:
      return {0, std::sqrt(3 / static_cast<double>(spec.fan_in))};
    case TensorRole::kEmbedding:
      return {0, 1.7320508};
    case TensorRole::kNorm:
      return {1, 0.25};
    case TensorRole::kBias:
      return {0, 0.1};
    case TensorRole::kPosition:
      return {0, 0.5};
    case TensorRole::kSink:
      return {0, 1};
    case TensorRole::kInverseScale:
      return {std::ldexp(1.0, exponent), std::ldexp(0.25, exponent)};
    case TensorRole::kE4M3Scale:
    case TensorRole::kE2M1Scale:
    case TensorRole::kTable:
    case TensorRole::kTableScale:
    case TensorRole::kTokenExperts:
      break;
  }
  return {0, 0};
}

// As f32, or as the bits of the nearest bf16; values here are finite.
template <typename Stored>
Stored stored(float value) {
  if constexpr (std::is_same_v<Stored, float>) {
    return value;
  } else {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    return static_cast<Stored>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
}

}  // namespace

SynthTensor::SynthTensor(const TensorSpec& spec, std::uint64_t seed, bool power_scales)
    : spec_(spec), key_(mix(fnv1a(spec.name) ^ seed)) {
  exponent_ = scale_exponent(spec);
  const Distribution d = distribution(spec, exponent_);
  bias_ = d.bias;
  amp_ = power_scales && spec.role == TensorRole::kInverseScale ? 0 : d.amp;
}

void SynthTensor::fill(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  SEEKLINE_CHECK(spec_.dtype == DType::kI64 || first % kGrain == 0,
                 "a piece of a synthetic tensor begins at its grain");
  switch (spec_.dtype) {
    case DType::kF8E4M3:
    case DType::kI8:
      return fill_codes(first, count, out);
    case DType::kF8E8M0:
      return fill_exponents(first, count, out);
    case DType::kBF16:
      return fill_numbers<std::uint16_t>(first, count, out);
    case DType::kF32:
      return fill_numbers<float>(first, count, out);
    case DType::kI64:
      return fill_expert_ids(first, count, out);
    case DType::kF16:
    case DType::kU8:
    case DType::kI32:
      break;
  }
  SEEKLINE_CHECK(false, "the formula has no such dtype");
}

// Eight codes a word, little-endian. For e4m3, all eight bytes at once: sign and the low five bits stay, bit
// 5 is set.
void SynthTensor::fill_codes(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const bool e4m3 = spec_.dtype == DType::kF8E4M3;
  const std::uint64_t kept = e4m3 ? 0x9f9f9f9f9f9f9f9f : ~std::uint64_t{0};
  const std::uint64_t set = e4m3 ? 0x2020202020202020 : 0;
  std::uint64_t z = key_ + (static_cast<std::uint64_t>(first / 8) + 1) * kStep;
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8, z += kStep) {
    const std::uint64_t codes = (mix(z) & kept) | set;
    std::memcpy(out + i, &codes, 8);
  }
  const std::uint64_t codes = (mix(z) & kept) | set;
  std::memcpy(out + i, &codes, static_cast<std::size_t>(count - i));
}

void SynthTensor::fill_exponents(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  std::uint64_t z = key_ + (static_cast<std::uint64_t>(first) + 1) * kStep;
  for (std::int64_t i = 0; i < count; ++i, z += kStep)
    out[i] = static_cast<std::uint8_t>(static_cast<std::uint64_t>(126 + exponent_) + mix(z) % 3);
}

// A value depends on the top 16 bits of its word only, so long pieces look it up.
template <typename Stored>
void SynthTensor::fill_numbers(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const auto value = [this](std::uint64_t top) {
    const double v = (static_cast<double>(top) - 32768) / 32768;
    return stored<Stored>(static_cast<float>(bias_ + amp_ * v));
  };
  std::uint64_t z = key_ + (static_cast<std::uint64_t>(first) + 1) * kStep;
  const auto write = [&](const auto& of_top) {
    for (std::int64_t i = 0; i < count; ++i, z += kStep) {
      const Stored element = of_top(mix(z) >> 48);
      std::memcpy(out + i * static_cast<std::int64_t>(sizeof(Stored)), &element, sizeof(Stored));
    }
  };
  constexpr std::size_t kValues = 65536;
  if (count < static_cast<std::int64_t>(4 * kValues)) return write(value);
  std::vector<Stored> values(kValues);
  for (std::size_t top = 0; top < kValues; ++top) values[top] = value(top);
  write([&values](std::uint64_t top) { return values[top]; });
}

void SynthTensor::fill_expert_ids(std::int64_t first, std::int64_t count, std::uint8_t* out) const {
  const std::int64_t width = spec_.shape[1];
  const auto experts = static_cast<std::uint64_t>(spec_.fan_in);
  SEEKLINE_CHECK(first % width == 0 && count % width == 0, "expert ids are made by whole rows");
  std::vector<std::uint64_t> row(static_cast<std::size_t>(width));
  for (std::int64_t at = 0; at < count; at += width) {
    for (std::int64_t c = 0; c < width; ++c) {
      const auto end = row.begin() + c;
      std::uint64_t id = word(key_, first + at + c) % experts;
      while (std::find(row.begin(), end, id) != end) id = (id + 1) % experts;
      row[static_cast<std::size_t>(c)] = id;
    }
    std::memcpy(out + at * 8, row.data(), static_cast<std::size_t>(width) * 8);
  }
}

}  // namespace seekline
