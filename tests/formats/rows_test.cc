// Cache rows, byte for byte.
#include "formats/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/golden_formats.h"

namespace seekline {
namespace {

using golden::bits_of;
using golden::format_golden;

struct Kind {
  const char* golden;
  RowFormat format;
  std::int64_t data_bytes, scale_bytes;
  const char* name;
};

const Kind kKinds[] = {
    {"mla_fp8", {RowKind::kMlaFp8, 576, 64}, 640, 16, "mla_fp8(576)"},
    {"mla_fp8_pow2", {RowKind::kMlaFp8, 576, 64, true}, 640, 16, "mla_fp8_pow2(576)"},
    {"index_fp8", {RowKind::kIndexFp8, 128}, 128, 4, "index_fp8(128)"},
    {"index_fp8_pow2", {RowKind::kIndexFp8, 128, 0, true}, 128, 4, "index_fp8_pow2(128)"},
    {"v4_fp8", {RowKind::kV4Fp8, 512, 64}, 576, 8, "v4_fp8(512)"},
    {"v41_fp8", {RowKind::kV41Fp8, 512}, 512, 16, "v41_fp8(512)"},
    {"v41_fp8_w64", {RowKind::kV41Fp8, 64}, 64, 2, "v41_fp8(64)"},
    {"v41_fp4", {RowKind::kV41Fp4, 512}, 256, 32, "v41_fp4(512)"},
    {"v41_fp4_w64", {RowKind::kV41Fp4, 64}, 32, 4, "v41_fp4(64)"},
    {"index_fp4", {RowKind::kIndexFp4, 128}, 64, 4, "index_fp4(128)"},
    {"index_fp4_w32", {RowKind::kIndexFp4, 32}, 16, 1, "index_fp4(32)"},
};

TEST(Rows, EveryKindEncodesAndDecodesToItsGoldenBytes) {
  const auto file = format_golden("rows");
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.golden);
    const std::string base = kind.golden;
    EXPECT_EQ(row_format_problem(kind.format), std::nullopt);
    EXPECT_EQ(kind.format.data_bytes(), kind.data_bytes);
    EXPECT_EQ(kind.format.scale_bytes(), kind.scale_bytes);
    EXPECT_EQ(kind.format.name(), kind.name);
    const auto in = file.at(base + "/in").as<float>();
    const auto data_bytes = static_cast<std::size_t>(kind.data_bytes);
    const auto scale_bytes = static_cast<std::size_t>(kind.scale_bytes);
    const auto width = static_cast<std::size_t>(kind.format.width);
    const std::size_t rows = in.size() / width;
    ASSERT_EQ(rows, 16u);
    // 0xEE: whatever is not written shows.
    std::vector<std::uint8_t> data(rows * data_bytes, 0xEE), scale(rows * scale_bytes, 0xEE);
    std::vector<float> out(in.size());
    for (std::size_t r = 0; r < rows; ++r) {
      encode_row(kind.format, &in[r * width], &data[r * data_bytes], &scale[r * scale_bytes]);
      decode_row(kind.format, &data[r * data_bytes], &scale[r * scale_bytes], &out[r * width]);
    }
    EXPECT_EQ(data, file.at(base + "/data").as<std::uint8_t>());
    EXPECT_EQ(scale, file.at(base + "/scale").as<std::uint8_t>());
    EXPECT_EQ(bits_of(out), bits_of(file.at(base + "/out").as<float>()));
  }
}

TEST(Rows, PageIsADataPlaneThenAScalePlane) {
  const auto file = format_golden("rows");
  for (const Kind& kind : kKinds) {
    SCOPED_TRACE(kind.golden);
    const std::string base = kind.golden;
    const auto in = file.at(base + "/in").as<float>();
    std::vector<std::uint8_t> page(static_cast<std::size_t>(4 * kind.format.bytes()));
    for (std::int64_t r = 0; r < 4; ++r)
      encode_row(kind.format, in.data() + r * kind.format.width, page.data() + r * kind.data_bytes,
                 page.data() + 4 * kind.data_bytes + r * kind.scale_bytes);
    EXPECT_EQ(page, file.at(base + "/page4").as<std::uint8_t>());
  }
}

TEST(Rows, FlashMlaRowHoldsTheSameBytesInItsOwnOrder) {
  const auto file = format_golden("rows");
  const auto data = file.at("mla_fp8_pow2/data").as<std::uint8_t>();
  const auto scale = file.at("mla_fp8_pow2/scale").as<std::uint8_t>();
  const auto theirs = file.at("mla_fp8_pow2/flashmla_row").as<std::uint8_t>();
  for (std::size_t r = 0; r < 8; ++r) {
    std::vector<std::uint8_t> row(&data[r * 640], &data[r * 640 + 512]);
    row.insert(row.end(), &scale[r * 16], &scale[r * 16] + 16);
    row.insert(row.end(), &data[r * 640 + 512], &data[r * 640] + 640);
    EXPECT_EQ(row, std::vector<std::uint8_t>(&theirs[r * 656], &theirs[r * 656] + 656));
  }
}

TEST(Rows, PlainRowsKeepTheirBits) {
  const std::vector<float> values{1.0f, -0.0f, 0x1p-130f, 3.1415927f};
  const RowFormat f32{RowKind::kF32, 4}, bf16{RowKind::kBF16, 4};
  EXPECT_EQ(f32.bytes(), 16);
  EXPECT_EQ(bf16.bytes(), 8);
  std::vector<std::uint8_t> data(16), scale(1);
  std::vector<float> out(4);
  encode_row(f32, values.data(), data.data(), scale.data());
  decode_row(f32, data.data(), scale.data(), out.data());
  EXPECT_EQ(bits_of(out), bits_of(values));
  encode_row(bf16, values.data(), data.data(), scale.data());
  decode_row(bf16, data.data(), scale.data(), out.data());
  EXPECT_EQ(bits_of(out), bits_of({1.0f, -0.0f, 0x1p-130f, 3.140625f}));
}

TEST(Rows, ImpossibleFormatsAreRefusedInWords) {
  EXPECT_THAT(row_format_problem({RowKind::kV4Fp8, 96, 64}).value(), ::testing::HasSubstr("multiple of 64"));
  EXPECT_THAT(row_format_problem({RowKind::kV41Fp8, 48}).value(), ::testing::HasSubstr("multiple of 32"));
  EXPECT_THAT(row_format_problem({RowKind::kV41Fp4, 40}).value(), ::testing::HasSubstr("multiple of 16"));
  EXPECT_THAT(row_format_problem({RowKind::kV41Fp4, 64, 16}).value(), ::testing::HasSubstr("bf16"));
  EXPECT_TRUE(row_format_problem({RowKind::kBF16, 0}).has_value());
  EXPECT_TRUE(row_format_problem({RowKind::kBF16, 64, 0, true}).has_value());
  EXPECT_FALSE(row_format_problem({RowKind::kMlaFp8, 80, 16}).has_value());
}

}  // namespace
}  // namespace seekline
