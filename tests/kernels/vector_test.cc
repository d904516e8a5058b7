// Element-wise kernels on every level.
#include <gtest/gtest.h>

#include <limits>

#include "kernel_cases.h"

namespace seekline {
namespace {

using namespace kernel_cases;

double ulps(float value, double expected) {
  const float e = static_cast<float>(expected);
  const double step =
      static_cast<double>(std::nextafter(std::fabs(e), INFINITY)) - std::fabs(static_cast<double>(e));
  return std::fabs(value - expected) / step;
}

TEST(Vectors, ExpIsWithinTwoUlpsOverItsWholeRange) {
  std::vector<float> x;
  for (float v = -86.9f; v < 88.7f; v += 0.0137f) x.push_back(v);
  std::vector<float> y(x.size());
  for (const Kernels* level : levels()) {
    level->exp(x.data(), static_cast<std::int64_t>(x.size()), y.data());
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_LE(ulps(y[i], std::exp(static_cast<double>(x[i]))), 2) << name_of(*level) << " " << x[i];
  }
}

TEST(Vectors, ExpAndSigmoidEndWell) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float x[] = {-infinity, -200, -104, 0, 100, infinity, std::nanf("")};
  for (const Kernels* level : levels()) {
    float y[7];
    level->exp(x, 7, y);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[1], 0);
    EXPECT_LE(y[2], 2e-45f);
    EXPECT_EQ(y[3], 1);
    EXPECT_EQ(y[4], infinity);
    EXPECT_EQ(y[5], infinity);
    EXPECT_TRUE(std::isnan(y[6])) << name_of(*level);
    level->sigmoid(x, 7, y);
    EXPECT_EQ(y[0], 0);
    EXPECT_EQ(y[3], 0.5f);
    EXPECT_EQ(y[5], 1);
    EXPECT_TRUE(std::isnan(y[6])) << name_of(*level);
  }
}

TEST(Vectors, SumsAreWithinTheRoundingOfTheirTerms) {
  for (const Kernels* level : levels())
    for (std::int64_t n : {1, 15, 16, 17, 96, 1000, 5120}) {
      const auto a = normal_values(n, 1), b = normal_values(n, 2), c = normal_values(n, 3);
      double dot = 0, dot3 = 0, squares = 0, dot_size = 0, dot3_size = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        dot += static_cast<double>(a[i]) * b[i];
        dot3 += static_cast<double>(a[i]) * b[i] * c[i];
        squares += static_cast<double>(a[i]) * a[i];
        dot_size += std::fabs(static_cast<double>(a[i]) * b[i]);
        dot3_size += std::fabs(static_cast<double>(a[i]) * b[i] * c[i]);
      }
      const double roundings = (static_cast<double>(n) / 16 + 8) * 0x1p-24;
      EXPECT_NEAR(level->dot(a.data(), b.data(), n), dot, roundings * dot_size);
      EXPECT_NEAR(level->dot3(a.data(), b.data(), c.data(), n), dot3, roundings * dot3_size);
      EXPECT_NEAR(level->sum_squares(a.data(), n), squares, roundings * squares);
      std::vector<float> out = a;
      level->rms_norm(out.data(), b.data(), n, 1e-6f, out.data());
      const double rstd = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-6);
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(out[i], a[i] * rstd * b[i],
                    4e-7 * std::fabs(a[i] * rstd * b[i]) + roundings * std::fabs(a[i] * rstd * b[i]));
    }
}

TEST(Vectors, SwigluClampsGateFromAboveAndUpOnBothSides) {
  const float gate[] = {20, -20, 1, 3, -1}, up[] = {1, 2, -30, 30, 0.5f};
  for (const Kernels* level : levels()) {
    float out[5];
    level->swiglu(gate, up, 5, 10, 0.5f, out);
    for (int i = 0; i < 5; ++i) {
      const double g = std::min(gate[i], 10.0f), u = std::clamp(up[i], -10.0f, 10.0f);
      const double expected = 0.5 * u * g / (1 + std::exp(-g));
      EXPECT_NEAR(out[i], expected, 1e-6 * std::fabs(expected)) << name_of(*level);
    }
    level->swiglu(gate, up, 5, 0, 1, out);
    EXPECT_NEAR(out[0], 20, 1e-4);
    EXPECT_NEAR(out[2], -30 / (1 + std::exp(-1.0)), 1e-4);
  }
}

TEST(Vectors, StreamsCollapseAndMixInAscendingOrder) {
  constexpr std::int64_t kN = 100;
  for (const Kernels* level : levels())
    for (int streams : {1, 2, 4}) {
      const auto h = normal_values(streams * kN, 1), y = normal_values(kN, 2),
                 post = normal_values(streams, 3), comb = normal_values(streams * streams, 4);
      std::vector<float> collapsed(size(kN)), mixed = h, sum = y;
      level->stream_collapse(h.data(), post.data(), streams, kN, collapsed.data());
      level->stream_mix(mixed.data(), y.data(), post.data(), comb.data(), streams, kN);
      level->axpy(-1.5f, h.data(), kN, sum.data());
      for (std::int64_t d = 0; d < kN; ++d) {
        double c = 0;
        for (int k = 0; k < streams; ++k) {
          c += static_cast<double>(post[size(k)]) * h[size(k * kN + d)];
          double m = static_cast<double>(post[size(k)]) * y[size(d)];
          for (int j = 0; j < streams; ++j)
            m += static_cast<double>(comb[size(j * streams + k)]) * h[size(j * kN + d)];
          ASSERT_NEAR(mixed[size(k * kN + d)], m, 1e-5) << name_of(*level);
        }
        ASSERT_NEAR(collapsed[size(d)], c, 1e-5) << name_of(*level);
        ASSERT_NEAR(sum[size(d)], y[size(d)] - 1.5 * h[size(d)], 1e-5);
      }
    }
}

}  // namespace
}  // namespace seekline
