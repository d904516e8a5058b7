// Cache rows on every level: the same bytes and values as formats/rows.h, bit for bit.
#include <gtest/gtest.h>

#include "kernel_cases.h"

namespace seekline {
namespace {

using namespace kernel_cases;

const RowFormat kFormats[] = {{RowKind::kF32, 48},
                              {RowKind::kF32, 7},
                              {RowKind::kBF16, 576},
                              {RowKind::kBF16, 10},
                              {RowKind::kMlaFp8, 576, 64},
                              {RowKind::kMlaFp8, 80, 16},
                              {RowKind::kMlaFp8, 576, 64, true},
                              {RowKind::kIndexFp8, 128},
                              {RowKind::kIndexFp8, 128, 0, true},
                              {RowKind::kV4Fp8, 512, 64},
                              {RowKind::kV4Fp8, 128, 64},
                              {RowKind::kV41Fp8, 512},
                              {RowKind::kV41Fp8, 64},
                              {RowKind::kV41Fp4, 512},
                              {RowKind::kV41Fp4, 64},
                              {RowKind::kIndexFp4, 128},
                              {RowKind::kIndexFp4, 32}};

TEST(KernelRows, EncodeAndDecodeEqualTheScalarTruth) {
  for (const Kernels* level : levels())
    for (const RowFormat& format : kFormats)
      for (float sigma : {1e-38f, 1e-20f, 1e-5f, 0.3f, 1.0f, 50.0f, 1e10f}) {
        SCOPED_TRACE(name_of(*level) + " " + format.name());
        auto values = normal_values(format.width, 1, sigma);
        values[0] = -0.0f;
        values[values.size() / 2] = 0;
        std::vector<std::uint8_t> data(size(format.data_bytes()), 0xEE),
            scale(size(format.scale_bytes()) + 1, 0xEE);
        auto truth_data = data, truth_scale = scale;
        encode_row(format, values.data(), truth_data.data(), truth_scale.data());
        level->encode_row(format, values.data(), data.data(), scale.data());
        ASSERT_EQ(data, truth_data) << sigma;
        ASSERT_EQ(scale, truth_scale) << sigma;
        std::vector<float> out(values.size()), truth(values.size());
        decode_row(format, data.data(), scale.data(), truth.data());
        level->decode_row(format, data.data(), scale.data(), out.data());
        ASSERT_EQ(std::memcmp(out.data(), truth.data(), out.size() * 4), 0) << sigma;
      }
}

TEST(KernelRows, EveryCodeIsEncodedAndDecoded) {
  // A ramp through every e4m3 value and every midpoint between two, at scale 1.
  for (const Kernels* level : levels())
    for (const RowFormat& format : {RowFormat{RowKind::kV41Fp8, 512}, RowFormat{RowKind::kV41Fp4, 512}}) {
      for (int start = 0; start < 8; ++start) {
        std::vector<float> values(512);
        const bool fp4 = format.kind == RowKind::kV41Fp4;
        for (int i = 0; i < 512; ++i) {
          const float step = fp4 ? 0.125f * static_cast<float>(start * 16 + i % 16)
                                 : std::ldexp(1.0f + static_cast<float>(i % 32) / 32, start * 2 - 8);
          values[size(i)] = (i % 2 ? -1.0f : 1.0f) * step;
        }
        for (int i = 0; i < 512; i += 16) values[size(i)] = fp4 ? 6.0f : 448.0f;
        std::vector<std::uint8_t> data(512), scale(32), truth_data(512), truth_scale(32);
        encode_row(format, values.data(), truth_data.data(), truth_scale.data());
        level->encode_row(format, values.data(), data.data(), scale.data());
        EXPECT_EQ(data, truth_data) << name_of(*level) << " " << format.name();
        EXPECT_EQ(scale, truth_scale);
      }
    }
}

}  // namespace
}  // namespace seekline
