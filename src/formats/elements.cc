#include "formats/elements.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "core/check.h"

namespace seekline {
namespace {

constexpr std::uint32_t kSignBit = 0x80000000u;
constexpr float kLargestE4M3 = 448;

constexpr float e4m3_value(unsigned code) {
  const unsigned exponent = code >> 3 & 15, mantissa = code & 7;
  const std::uint32_t sign = (code & 0x80u) << 24;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(sign | 0x7FF00000u);
  // A subnormal is mantissa * 2^-9; the product is exact.
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 120) << 23 | mantissa << 20);
}

constexpr std::array<float, 256> kE4M3 = [] {
  std::array<float, 256> values{};
  for (unsigned code = 0; code < 256; ++code) values[code] = e4m3_value(code);
  return values;
}();

constexpr std::array<float, 16> kE2M1{0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                      -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

}  // namespace

float bf16_to_f32(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

std::uint16_t f32_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  // Half of the last kept place, less one where that place is even: ties then go to even.
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16;
  const std::uint32_t exponent = bits >> 10 & 31u, mantissa = bits & 0x3FFu;
  if (exponent == 31) {  // infinity, or NaN made quiet
    return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13 | (mantissa ? 0x400000u : 0u));
  }
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

float e4m3_to_f32(std::uint8_t code) { return kE4M3[code]; }

std::uint8_t f32_to_e4m3(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const unsigned sign = bits >> 24 & 0x80u;
  if (std::isnan(value)) return static_cast<std::uint8_t>(sign | 0x7Fu);
  const float magnitude = std::min(std::bit_cast<float>(bits & ~kSignBit), kLargestE4M3);
  // Below the smallest normal the grid is 2^-9; 8 steps are the smallest normal's own code.
  if (magnitude < 0x1p-6f)
    return static_cast<std::uint8_t>(sign | static_cast<unsigned>(std::lrint(magnitude * 512)));
  std::uint32_t m = std::bit_cast<std::uint32_t>(magnitude);
  m += 0x7FFFFu + (m >> 20 & 1u);
  return static_cast<std::uint8_t>(sign | ((m >> 20) - (120u << 3)));
}

float e2m1_to_f32(std::uint8_t code) { return kE2M1[code & 15u]; }

std::uint8_t f32_to_e2m1(float value) {
  SEEKLINE_CHECK(!std::isnan(value), "e2m1 has no NaN");
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const float magnitude = std::bit_cast<float>(bits & ~kSignBit);
  // Midpoints between neighbours; a tie goes to the even code, so every other comparison is strict.
  const int index = (magnitude > 0.25f) + (magnitude >= 0.75f) + (magnitude > 1.25f) + (magnitude >= 1.75f) +
                    (magnitude > 2.5f) + (magnitude >= 3.5f) + (magnitude > 5.0f);
  return static_cast<std::uint8_t>((bits >> 28 & 8u) | static_cast<unsigned>(index));
}

float ue8m0_to_f32(std::uint8_t code) {
  if (code == 0) return 0x1p-127f;
  if (code == 255) return std::bit_cast<float>(0x7FC00000u);
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

std::uint8_t ue8m0_ceil(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  std::uint32_t exponent = bits >> 23;
  const std::uint32_t mantissa = bits & 0x7FFFFFu;
  // Code 0 is 2^-127, whose f32 is subnormal with the top mantissa bit alone.
  if (exponent == 0) return mantissa > 0x400000u ? 1 : 0;
  if (mantissa != 0) ++exponent;
  return static_cast<std::uint8_t>(std::min(exponent, 254u));
}

}  // namespace seekline
