// Every code of every element type, and every rounding edge of their encoders.
#include "formats/elements.h"

#include <gtest/gtest.h>

#include <limits>

#include "formats/golden_formats.h"

namespace seekline {
namespace {

using golden::bits_of;
using golden::format_golden;

template <typename Decode>
std::vector<std::uint32_t> decode_all(int codes, Decode decode) {
  std::vector<float> values;
  for (int code = 0; code < codes; ++code) values.push_back(decode(static_cast<std::uint8_t>(code)));
  return bits_of(values);
}

TEST(Elements, EveryCodeDecodesToItsGoldenBits) {
  const auto file = format_golden("elements");
  // NaN included: with its sign and the payload of the golden file.
  EXPECT_EQ(decode_all(256, e4m3_to_f32), file.at("decode_bits/e4m3").as<std::uint32_t>());
  EXPECT_EQ(decode_all(16, e2m1_to_f32), file.at("decode_bits/e2m1").as<std::uint32_t>());
  EXPECT_EQ(decode_all(255, ue8m0_to_f32), [&] {
    auto expected = file.at("decode_bits/ue8m0").as<std::uint32_t>();
    expected.pop_back();
    return expected;
  }());
  EXPECT_TRUE(std::isnan(ue8m0_to_f32(255)));
}

TEST(Elements, EveryRoundingEdgeEncodesToItsGoldenCode) {
  const auto file = format_golden("elements");
  const auto bf16_in = file.at("encode/bf16/in_bits").as<float>();
  const auto bf16_out = file.at("encode/bf16/out_bits").as<std::uint32_t>();
  ASSERT_GT(bf16_in.size(), 8000u);
  for (std::size_t i = 0; i < bf16_in.size(); ++i) {
    if (std::isnan(bf16_in[i])) {
      EXPECT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(bf16_in[i]))));
    } else {
      EXPECT_EQ(f32_to_bf16(bf16_in[i]), bf16_out[i] & 0xFFFF) << bf16_in[i];
    }
  }
  const auto e4m3_in = file.at("encode/e4m3/in_bits").as<float>();
  const auto e4m3_out = file.at("encode/e4m3/out").as<std::uint8_t>();
  for (std::size_t i = 0; i < e4m3_in.size(); ++i) {
    if (std::isnan(e4m3_in[i])) {
      EXPECT_EQ(f32_to_e4m3(e4m3_in[i]) & 0x7F, 0x7F);
    } else {
      EXPECT_EQ(f32_to_e4m3(e4m3_in[i]), e4m3_out[i]) << e4m3_in[i];
    }
  }
  const auto e2m1_in = file.at("encode/e2m1/in_bits").as<float>();
  const auto e2m1_out = file.at("encode/e2m1/out").as<std::uint8_t>();
  for (std::size_t i = 0; i < e2m1_in.size(); ++i)
    EXPECT_EQ(f32_to_e2m1(e2m1_in[i]), e2m1_out[i]) << e2m1_in[i];
}

TEST(Elements, EveryCodeSurvivesDecodeAndEncode) {
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<std::uint8_t>(code);
    if ((c & 0x7F) != 0x7F) {
      EXPECT_EQ(f32_to_e4m3(e4m3_to_f32(c)), c);
    }
    if (c != 255) {
      EXPECT_EQ(ue8m0_ceil(ue8m0_to_f32(c)), c);
    }
  }
  for (int code = 0; code < 16; ++code)
    EXPECT_EQ(f32_to_e2m1(e2m1_to_f32(static_cast<std::uint8_t>(code))), code);
  for (int code = 0; code < 65536; ++code) {
    const auto c = static_cast<std::uint16_t>(code);
    const float value = bf16_to_f32(c);
    if (!std::isnan(value)) {
      EXPECT_EQ(f32_to_bf16(value), c);
    }
  }
}

TEST(Elements, PowersOfTwoRoundUpOnly) {
  EXPECT_EQ(ue8m0_ceil(1.0f), 127);
  EXPECT_EQ(ue8m0_ceil(std::nextafter(1.0f, 2.0f)), 128);
  EXPECT_EQ(ue8m0_ceil(std::nextafter(1.0f, 0.0f)), 127);
  EXPECT_EQ(ue8m0_ceil(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(ue8m0_ceil(std::nextafter(0x1p-127f, 1.0f)), 1);
  EXPECT_EQ(ue8m0_ceil(std::numeric_limits<float>::max()), 254);
}

#ifndef __clang__  // clang-14, which lints, has no _Float16 for plain x86
// The golden files have no f16; the compiler's own conversion is the reference.
TEST(Elements, EveryF16CodeDecodesAsTheCompilerDoes) {
  for (int code = 0; code < 65536; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(bits));
    const float value = f16_to_f32(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(value), std::bit_cast<std::uint32_t>(expected)) << code;
    }
  }
}
#endif

TEST(Elements, InfinitySaturates) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(infinity)), 448);
  EXPECT_EQ(e4m3_to_f32(f32_to_e4m3(-infinity)), -448);
  EXPECT_EQ(e2m1_to_f32(f32_to_e2m1(infinity)), 6);
  EXPECT_EQ(e2m1_to_f32(f32_to_e2m1(-infinity)), -6);
}

}  // namespace
}  // namespace seekline
