// Block quantizers against blocks that the released kernels quantized.
#include "formats/quantizers.h"

#include <gtest/gtest.h>

#include "formats/golden_formats.h"
#include "formats/hadamard.h"

namespace seekline {
namespace {

using golden::bits_of;
using golden::format_golden;
using golden::LiteTensor;

struct Quantized {
  std::vector<std::uint8_t> codes, scale_codes;
  std::vector<float> scales, out;
};

Quantized quantize_rows(BlockQuantizer quantizer, const LiteTensor& tensor) {
  const auto in = tensor.as<float>();
  const auto block = static_cast<std::size_t>(quantizer_block(quantizer));
  Quantized q;
  for (std::size_t first = 0; first < in.size(); first += block) {
    const std::span<const float> values(in.data() + first, block);
    const QuantizedBlock b = quantize_block(quantizer, values);
    q.codes.insert(q.codes.end(), b.codes, b.codes + block);
    q.scale_codes.push_back(b.scale_code);
    q.scales.push_back(b.scale);
  }
  q.out.resize(in.size());
  quantize_values(quantizer, in, q.out);
  return q;
}

TEST(Quantizers, ByteScaleBlocksEqualTheGoldenCodesScalesAndValues) {
  const auto file = format_golden("quantizers");
  const std::pair<const char*, BlockQuantizer> cases[] = {{"fp8_block32", BlockQuantizer::kFp8Block32},
                                                          {"fp8_block64", BlockQuantizer::kFp8Block64},
                                                          {"fp8_block128", BlockQuantizer::kFp8Block128},
                                                          {"fp4_block32", BlockQuantizer::kFp4Block32},
                                                          {"fp4_block16", BlockQuantizer::kFp4Block16}};
  for (const auto& [name, quantizer] : cases) {
    SCOPED_TRACE(name);
    const std::string base = name;
    const Quantized q = quantize_rows(quantizer, file.at(base + "/in"));
    EXPECT_EQ(q.codes, file.at(base + "/codes").as<std::uint8_t>());
    EXPECT_EQ(q.scale_codes, file.at(base + "/scale").as<std::uint8_t>());
    EXPECT_EQ(bits_of(q.out), bits_of(file.at(base + "/out").as<float>()));
  }
}

TEST(Quantizers, F32ScaleBlocksEqualTheGoldenCodesScalesAndValues) {
  const auto file = format_golden("quantizers");
  for (const std::string base : {"fp8_row128_f32", "fp8_block128_f32"}) {
    SCOPED_TRACE(base);
    const Quantized q = quantize_rows(BlockQuantizer::kFp8Block128F32, file.at(base + "/in"));
    EXPECT_EQ(q.codes, file.at(base + "/f32/codes").as<std::uint8_t>());
    EXPECT_EQ(bits_of(q.scales), bits_of(file.at(base + "/f32/scale").as<float>()));
    EXPECT_EQ(bits_of(q.out), bits_of(file.at(base + "/f32/out").as<float>()));
    // A scale made by division is another quantizer: the golden file proves that the test would see it.
    EXPECT_NE(bits_of(q.scales), bits_of(file.at(base + "/f32_by_division/scale").as<float>()));

    const Quantized p = quantize_rows(BlockQuantizer::kFp8Block128, file.at(base + "/in"));
    EXPECT_EQ(p.codes, file.at(base + "/pow2/codes").as<std::uint8_t>());
    EXPECT_EQ(bits_of(p.scales), bits_of(file.at(base + "/pow2/scale").as<float>()));
    EXPECT_EQ(bits_of(p.out), bits_of(file.at(base + "/pow2/out").as<float>()));
  }
}

TEST(Quantizers, PartialLastBlockEqualsTheSameBlockPaddedWithZeros) {
  const auto in = format_golden("quantizers").at("fp8_block32/in").as<float>();
  std::vector<float> cut(in.begin() + 32 * 30, in.begin() + 32 * 31 + 7);
  std::vector<float> padded = cut;
  padded.resize(64, 0.0f);
  std::vector<float> out(cut.size()), padded_out(64);
  quantize_values(BlockQuantizer::kFp8Block32, cut, out);
  quantize_values(BlockQuantizer::kFp8Block32, padded, padded_out);
  padded_out.resize(cut.size());
  EXPECT_EQ(bits_of(out), bits_of(padded_out));
}

TEST(Quantizers, NoneKeepsValuesAndInPlaceIsAllowed) {
  std::vector<float> values{1.25f, -0.0f, 3e38f}, copy(3);
  quantize_values(BlockQuantizer::kNone, values, copy);
  EXPECT_EQ(bits_of(copy), bits_of(values));
  std::vector<float> in_place(64, 1.3f), apart(64);
  quantize_values(BlockQuantizer::kFp4Block16, in_place, apart);
  quantize_values(BlockQuantizer::kFp4Block16, in_place, in_place);
  EXPECT_EQ(bits_of(in_place), bits_of(apart));
}

TEST(Hadamard, EqualsTheGoldenTransform) {
  const auto file = format_golden("hadamard128");
  auto values = file.at("in").as<float>();
  const auto expected = file.at("out_f64").as<double>();
  for (std::size_t row = 0; row < values.size() / 128; ++row) {
    const std::span<float> x(values.data() + row * 128, 128);
    double largest = 0;
    for (float v : x) largest = std::max(largest, std::fabs(static_cast<double>(v)));
    hadamard(x);
    for (std::size_t i = 0; i < 128; ++i) EXPECT_NEAR(x[i], expected[row * 128 + i], 1e-6 * largest);
  }
}

TEST(Hadamard, TwiceIsTheIdentityAtEveryPowerOfTwo) {
  for (std::size_t n = 1; n <= 512; n *= 2) {
    std::vector<float> x(n), original;
    for (std::size_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 7) - 3;
    original = x;
    hadamard(x);
    hadamard(x);
    for (std::size_t i = 0; i < n; ++i) EXPECT_NEAR(x[i], original[i], 1e-5);
  }
}

}  // namespace
}  // namespace seekline
