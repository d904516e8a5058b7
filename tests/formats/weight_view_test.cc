// Released weight blocks against their golden values, and products with them against f64.
#include "formats/weight_view.h"

#include <gtest/gtest.h>

#include "formats/elements.h"
#include "formats/golden_formats.h"
#include "formats/quantizers.h"

namespace seekline {
namespace {

using golden::bits_of;
using golden::format_golden;
using golden::LiteTensor;
using golden::SafetensorsLite;

struct Case {
  std::string name;
  WeightKind kind;
  ScaleKind scale_kind;
  int block_rows, block_cols;
};

const Case kCases[] = {
    {"v41_dense", WeightKind::kE4M3, ScaleKind::kUE8M0, 32, 32},
    {"v4_dense", WeightKind::kE4M3, ScaleKind::kUE8M0, 128, 128},
    {"v3_dense", WeightKind::kE4M3, ScaleKind::kF32, 128, 128},
    {"v41_expert", WeightKind::kE2M1, ScaleKind::kUE8M0, 1, 32},
    {"v4_expert", WeightKind::kE2M1, ScaleKind::kUE8M0, 1, 32},
    {"engram", WeightKind::kE4M3, ScaleKind::kUE8M0, 1, 32},
    {"v41_odd", WeightKind::kE4M3, ScaleKind::kUE8M0, 32, 32},
    {"v4_odd", WeightKind::kE4M3, ScaleKind::kUE8M0, 128, 128},
};

WeightView view_of(const SafetensorsLite& file, const Case& c) {
  const LiteTensor& weight = file.at(c.name + "/weight");
  WeightView w;
  w.kind = c.kind;
  w.scale_kind = c.scale_kind;
  w.rows = weight.rows();
  w.cols = weight.cols() * (c.kind == WeightKind::kE2M1 ? 2 : 1);
  w.data = weight.bytes.data();
  w.scales = file.at(c.name + "/scale").bytes.data();
  w.block_rows = c.block_rows;
  w.block_cols = c.block_cols;
  return w;
}

TEST(WeightView, EveryReleasedBlockFormatDecodesToItsGoldenBits) {
  const auto file = format_golden("linear");
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const WeightView w = view_of(file, c);
    EXPECT_EQ(w.scale_bytes(), static_cast<std::int64_t>(file.at(c.name + "/scale").bytes.size()));
    EXPECT_EQ(w.bytes() - w.scale_bytes(),
              static_cast<std::int64_t>(file.at(c.name + "/weight").bytes.size()));
    std::vector<float> rows(static_cast<std::size_t>(w.rows * w.cols)), single;
    for (std::int64_t r = 0; r < w.rows; ++r) decode_weight_row(w, r, rows.data() + r * w.cols);
    for (std::int64_t r = 0; r < w.rows; ++r)
      for (std::int64_t k = 0; k < w.cols; ++k) single.push_back(weight_value(w, r, k));
    EXPECT_EQ(bits_of(rows), bits_of(single));
    if (file.has(c.name + "/dequant_f32")) {
      EXPECT_EQ(bits_of(rows), bits_of(file.at(c.name + "/dequant_f32").as<float>()));
    }
    if (file.has(c.name + "/dequant_bf16")) {
      const auto expected = file.at(c.name + "/dequant_bf16").as<std::uint16_t>();
      for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(f32_to_bf16(rows[i]), expected[i]);
    }
  }
}

TEST(WeightView, RowsFromIsTheSameMatrixFurtherDown) {
  const auto file = format_golden("linear");
  for (const Case& c : kCases) {
    const WeightView w = view_of(file, c);
    const std::int64_t first = c.block_rows;
    const WeightView below = w.rows_from(first, w.rows - first);
    EXPECT_EQ(below.rows, w.rows - first);
    for (std::int64_t k = 0; k < w.cols; ++k) ASSERT_EQ(weight_value(below, 0, k), weight_value(w, first, k));
  }
}

/// x codes and scales as the golden file has them, and y = x W^T against f64.
void check_product(const SafetensorsLite& file, const Case& c, const std::string& variant,
                   const std::string& x_name, BlockQuantizer quantizer) {
  SCOPED_TRACE(c.name + variant);
  const WeightView w = view_of(file, c);
  const auto x_bits = file.at(x_name).as<std::uint16_t>();
  const auto expected = file.at(c.name + variant + "/y_f64").as<double>();
  const auto cols = static_cast<std::size_t>(w.cols);
  double largest = 0;
  for (double y : expected) largest = std::max(largest, std::fabs(y));
  std::vector<float> x(cols), row(cols);
  std::vector<std::uint8_t> codes;
  for (std::size_t t = 0; t < x_bits.size() / cols; ++t) {
    for (std::size_t k = 0; k < cols; ++k) x[k] = bf16_to_f32(x_bits[t * cols + k]);
    const auto block = static_cast<std::size_t>(quantizer_block(quantizer));
    for (std::size_t first = 0; first < cols; first += block) {
      const QuantizedBlock b = quantize_block(quantizer, {x.data() + first, block});
      codes.insert(codes.end(), b.codes, b.codes + block);
    }
    quantize_values(quantizer, x, x);
    for (std::int64_t r = 0; r < w.rows; ++r) {
      decode_weight_row(w, r, row.data());
      double y = 0;
      for (std::size_t k = 0; k < cols; ++k) y += static_cast<double>(x[k]) * row[k];
      EXPECT_NEAR(y, expected[t * static_cast<std::size_t>(w.rows) + static_cast<std::size_t>(r)],
                  1e-6 * largest);
    }
  }
  if (file.has(c.name + variant + "/x_codes")) {
    EXPECT_EQ(codes, file.at(c.name + variant + "/x_codes").as<std::uint8_t>());
  }
}

TEST(WeightView, ProductsOfQuantizedInputsEqualTheGoldenOnes) {
  const auto file = format_golden("linear");
  check_product(file, kCases[0], "", "x256", BlockQuantizer::kFp8Block32);
  check_product(file, kCases[1], "", "x384", BlockQuantizer::kFp8Block128);
  check_product(file, kCases[2], "/pow2", "x384", BlockQuantizer::kFp8Block128);
  check_product(file, kCases[2], "/f32", "x384", BlockQuantizer::kFp8Block128F32);
  check_product(file, kCases[3], "", "x256", BlockQuantizer::kFp8Block32);
  check_product(file, kCases[4], "", "x384", BlockQuantizer::kFp8Block128);
}

}  // namespace
}  // namespace seekline
