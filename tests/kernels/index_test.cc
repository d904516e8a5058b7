// Index scores on every level.
#include <gtest/gtest.h>

#include "kernel_cases.h"

namespace seekline {
namespace {

using namespace kernel_cases;

struct Keys {
  std::vector<std::uint8_t> data, scale;
  std::vector<float> decoded;

  /// Row r times 2^(r % 7 * powers / 7).
  Keys(const RowFormat& format, std::int64_t rows, unsigned seed, int powers = 0) {
    data.resize(size(rows * format.data_bytes()));
    scale.resize(size(rows * format.scale_bytes()) + 1);
    decoded.resize(size(rows * format.width));
    auto values = normal_values(rows * format.width, seed);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = r * format.width; i < (r + 1) * format.width; ++i)
        values[size(i)] = std::ldexp(values[size(i)], static_cast<int>(r % 7) * powers / 7);
      std::uint8_t *d = data.data() + r * format.data_bytes(), *s = scale.data() + r * format.scale_bytes();
      encode_row(format, values.data() + r * format.width, d, s);
      decode_row(format, d, s, decoded.data() + r * format.width);
    }
  }
};

std::vector<float> scores(const Kernels& level, const RowFormat& format, const Keys& keys,
                          const std::vector<float>& q, const std::vector<float>& weights, std::int64_t first,
                          std::int64_t rows) {
  const int heads = static_cast<int>(weights.size());
  Buffer<std::uint8_t> query(size(level.index_query_bytes(format, heads)));
  level.prepare_index_query(format, q.data(), heads, query.data());
  std::vector<float> out(size(rows));
  level.index_scores({format, query.data(), weights.data(), heads,
                      keys.data.data() + first * format.data_bytes(),
                      keys.scale.data() + first * format.scale_bytes(), rows, out.data()});
  return out;
}

const RowFormat kFormats[] = {
    {RowKind::kIndexFp4, 128}, {RowKind::kIndexFp4, 32},           {RowKind::kIndexFp4, 160},
    {RowKind::kIndexFp8, 128}, {RowKind::kIndexFp8, 128, 0, true}, {RowKind::kBF16, 128},
    {RowKind::kF32, 32}};

TEST(IndexScores, EqualTheSumInF64) {
  for (const Kernels* level : levels())
    for (const RowFormat& format : kFormats)
      for (int heads : {1, 4, 7, 64}) {
        SCOPED_TRACE(name_of(*level) + " " + format.name());
        constexpr std::int64_t kRows = 83;
        const Keys keys(format, kRows, 1);
        const auto q = normal_values(heads * format.width, 2), weights = normal_values(heads, 3);
        const auto found = scores(*level, format, keys, q, weights, 0, kRows);
        std::vector<float> rounded(q.size());
        for (int h = 0; h < heads; ++h)
          quantize_values(row_layout(format).quantizer, {q.data() + h * format.width, size(format.width)},
                          {rounded.data() + h * format.width, size(format.width)});
        for (std::int64_t r = 0; r < kRows; ++r) {
          double expected = 0, magnitude = 0;
          for (int h = 0; h < heads; ++h) {
            double dot = 0;
            for (int k = 0; k < format.width; ++k) {
              const double term = static_cast<double>(rounded[size(h * format.width + k)]) *
                                  keys.decoded[size(r * format.width + k)];
              dot += term;
              magnitude += std::fabs(weights[size(h)] * term);
            }
            expected += weights[size(h)] * std::max(dot, 0.0);
          }
          ASSERT_NEAR(found[size(r)], expected, 32 * 0x1p-24 * magnitude + 1e-30) << r;
        }
      }
}

// The blocks of fp4 are exact integers and the order of blocks and heads is fixed, so all levels agree to the
// bit.
TEST(IndexScores, Fp4ScoresAreTheSameBitsOnEveryLevel) {
  for (const RowFormat& format : {RowFormat{RowKind::kIndexFp4, 128}, RowFormat{RowKind::kIndexFp4, 64}}) {
    const Keys keys(format, 200, 4);
    const auto q = normal_values(64 * format.width, 5), weights = normal_values(64, 6);
    const auto truth = scores(kPortableKernels, format, keys, q, weights, 0, 200);
    for (const Kernels* level : levels())
      EXPECT_EQ(scores(*level, format, keys, q, weights, 0, 200), truth) << name_of(*level);
  }
}

// Scales far from 1 take another way where products of two might leave the normal range, as those of the last
// case do.
TEST(IndexScores, Fp4ScoresWithScalesOfAnySizeAreTheSameBitsOnEveryLevel) {
  const RowFormat format{RowKind::kIndexFp4, 128};
  struct Powers {
    int keys, query;
  };
  for (const Powers p : {Powers{100, 0}, {-100, 0}, {0, 90}, {0, -90}, {100, -70}, {-100, 70}, {-100, -60}}) {
    SCOPED_TRACE(std::to_string(p.keys) + " " + std::to_string(p.query));
    const Keys keys(format, 200, 10, p.keys);
    auto q = normal_values(64 * format.width, 11);
    for (float& x : q) x = std::ldexp(x, p.query);
    const auto weights = normal_values(64, 12);
    const auto truth = scores(kPortableKernels, format, keys, q, weights, 0, 200);
    for (const Kernels* level : levels())
      EXPECT_EQ(scores(*level, format, keys, q, weights, 0, 200), truth) << name_of(*level);
  }
}

TEST(IndexScores, BitsDoNotDependOnWhereAScanIsCut) {
  for (const Kernels* level : levels())
    for (const RowFormat& format : kFormats) {
      const Keys keys(format, 140, 7);
      const auto q = normal_values(8 * format.width, 8), weights = normal_values(8, 9);
      const auto whole = scores(*level, format, keys, q, weights, 0, 140);
      for (std::int64_t cut : {1, 15, 16, 63, 64, 65, 139}) {
        auto parts = scores(*level, format, keys, q, weights, 0, cut);
        const auto rest = scores(*level, format, keys, q, weights, cut, 140 - cut);
        parts.insert(parts.end(), rest.begin(), rest.end());
        EXPECT_EQ(parts, whole) << name_of(*level) << " " << format.name() << " " << cut;
      }
    }
}

}  // namespace
}  // namespace seekline
