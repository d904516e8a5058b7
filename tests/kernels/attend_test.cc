// Attention over tiles on every level: right, and each query alone gives the bits it gives among others.
#include <gtest/gtest.h>

#include "kernel_cases.h"
#include "kernels/dots.h"

namespace seekline {
namespace {

using namespace kernel_cases;

struct Result {
  std::vector<float> out, max, sum;
  bool operator==(const Result&) const = default;
};

/// Softmax attention of every query over `count` rows, tile by tile, `together` queries a call.
/// valid(i) rows are visible to query i.
Result attend_all(const Kernels& level, Arithmetic arithmetic, const RowFormat& format,
                  const std::vector<float>& rows, const std::vector<float>& q, int key_width, int value_first,
                  int value_width, int queries, int together, int count, const std::vector<int>& visible) {
  std::vector<std::uint8_t> data(size(count * format.data_bytes())),
      scale(size(count * format.scale_bytes()) + 1);
  std::vector<RowRef> refs;
  for (int r = 0; r < count; ++r) {
    refs.push_back({data.data() + r * format.data_bytes(), scale.data() + r * format.scale_bytes()});
    level.encode_row(format, rows.data() + r * format.width, data.data() + r * format.data_bytes(),
                     scale.data() + r * format.scale_bytes());
  }
  const auto query_bytes = (level.query_bytes(arithmetic, key_width) + 63) / 64 * 64;
  Buffer<std::uint8_t> prepared(size(queries * query_bytes)),
      keys(size(level.tile_bytes(arithmetic, key_width))),
      values(size(level.tile_bytes(arithmetic, value_width))),
      scratch(size(level.attend_scratch_bytes(queries)));
  Result result{std::vector<float>(size(queries * value_width)), {}, {}};
  std::vector<AttendState> states;
  std::vector<const std::uint8_t*> pointers;
  for (int i = 0; i < queries; ++i) {
    level.prepare_query(arithmetic, q.data() + i * key_width, key_width, prepared.data() + i * query_bytes);
    pointers.push_back(prepared.data() + i * query_bytes);
    states.push_back({-INFINITY, 0, result.out.data() + i * value_width});
  }
  for (int first = 0; first < count; first += kTileRows) {
    const int n = std::min(kTileRows, count - first);
    const std::uint8_t* loaded = level.load_tile({format, arithmetic, refs.data() + first, n, 0, key_width,
                                                  value_first, value_width, keys.data(), values.data()});
    for (int i = 0; i < queries; i += together) {
      const int m = std::min(together, queries - i);
      std::vector<int> valid;
      for (int j = i; j < i + m; ++j) valid.push_back(std::min(n, visible[size(j)] - first));
      level.attend({arithmetic, keys.data(), loaded, key_width, value_width, 0.125f, m, pointers.data() + i,
                    valid.data(), states.data() + i, scratch.data()});
    }
  }
  for (const AttendState& s : states) {
    result.max.push_back(s.max);
    result.sum.push_back(s.sum);
  }
  return result;
}

struct Case {
  RowFormat format;
  int key_width, value_first, value_width;
};

const Case kCases[] = {{{RowKind::kBF16, 64}, 64, 0, 64},         {{RowKind::kF32, 33}, 33, 0, 33},
                       {{RowKind::kV41Fp8, 64}, 64, 0, 64},       {{RowKind::kV41Fp4, 512}, 512, 0, 512},
                       {{RowKind::kV4Fp8, 128, 64}, 128, 0, 128}, {{RowKind::kMlaFp8, 144, 16}, 144, 0, 128},
                       {{RowKind::kBF16, 96}, 32, 32, 48},        {{RowKind::kBF16, 192}, 192, 0, 128},
                       {{RowKind::kBF16, 200}, 72, 100, 72}};

TEST(Attend, EqualsTheSoftmaxInF64) {
  constexpr int kQueries = 8, kRows = 150;
  for (const Kernels* level : levels())
    for (const Case& c : kCases)
      for (Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
        SCOPED_TRACE(name_of(*level) + " " + c.format.name());
        const auto rows = normal_values(kRows * c.format.width, 1),
                   q = normal_values(kQueries * c.key_width, 2);
        const std::vector<int> visible{150, 1, 64, 65, 128, 0, 149, 33};
        const Result r = attend_all(*level, arithmetic, c.format, rows, q, c.key_width, c.value_first,
                                    c.value_width, kQueries, kQueries, kRows, visible);
        std::vector<float> decoded(rows.size());
        for (int i = 0; i < kRows; ++i) {
          std::vector<std::uint8_t> data(size(c.format.data_bytes())),
              scale(size(c.format.scale_bytes()) + 1);
          encode_row(c.format, rows.data() + i * c.format.width, data.data(), scale.data());
          decode_row(c.format, data.data(), scale.data(), decoded.data() + i * c.format.width);
        }
        for (int i = 0; i < kQueries; ++i) {
          if (visible[size(i)] == 0) {
            EXPECT_EQ(r.sum[size(i)], 0);
            continue;
          }
          std::vector<double> weight, expected(size(c.value_width));
          double largest = -1e30, total = 0, spread = 0;
          for (int j = 0; j < visible[size(i)]; ++j) {
            double score = 0, squares = 0;
            for (int k = 0; k < c.key_width; ++k) {
              const double term =
                  static_cast<double>(q[size(i * c.key_width + k)]) * decoded[size(j * c.format.width + k)];
              score += term;
              squares += term * term;
            }
            weight.push_back(0.125 * score);
            largest = std::max(largest, weight.back());
            spread = std::max(spread, 0.125 * std::sqrt(squares));
          }
          for (double& w : weight) total += w = std::exp(w - largest);
          double most = 0;
          for (int j = 0; j < visible[size(i)]; ++j)
            for (int d = 0; d < c.value_width; ++d) {
              const double v = decoded[size(j * c.format.width + c.value_first + d)];
              expected[size(d)] += weight[size(j)] / total * v;
              most = std::max(most, std::fabs(v));
            }
          // A score off by e moves the average by at most 2 e max|v|; fast rounds queries and rows (2^-9
          // each, random signs) and weights (2^-9).
          const double score_error =
              arithmetic == Arithmetic::kFast ? 6 * 0x1p-9 * spread : 64 * 0x1p-24 * spread;
          const double tolerance =
              most * (2 * score_error + (arithmetic == Arithmetic::kFast ? 0x1p-7 : 1e-5));
          for (int d = 0; d < c.value_width; ++d)
            ASSERT_NEAR(r.out[size(i * c.value_width + d)] / r.sum[size(i)], expected[size(d)], tolerance)
                << i << " " << d;
        }
      }
}

TEST(Attend, QueryAloneGivesTheBitsItGivesAmongOthers) {
  constexpr int kQueries = 17, kRows = 100;
  for (const Kernels* level : levels())
    for (const Case& c : kCases)
      for (Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
        SCOPED_TRACE(name_of(*level) + " " + c.format.name());
        const auto rows = normal_values(kRows * c.format.width, 3),
                   q = normal_values(kQueries * c.key_width, 4);
        std::vector<int> visible;
        for (int i = 0; i < kQueries; ++i) visible.push_back(i * 6);
        const auto run = [&](int together) {
          return attend_all(*level, arithmetic, c.format, rows, q, c.key_width, c.value_first, c.value_width,
                            kQueries, together, kRows, visible);
        };
        const Result alone = run(1);
        for (int together : {2, 5, 6, 7, 16, 17}) EXPECT_EQ(run(together), alone) << together;
      }
}

// On CPUs where the two round alike. Scores far apart, so that weights reach down to subnormal numbers.
TEST(Attend, BothFormsOfDotsGiveTheSameBits) {
  if (!isa_supported(Isa::kAvx512Bf16)) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  if (!dots_agree()) GTEST_SKIP() << "this CPU's VDPBF16PS rounds in a way of its own: it is always in force";
  constexpr int kQueries = 8, kRows = 150;
  const Kernels& level = kernels_at(Isa::kAvx512Bf16);
  const Dots before = dots();
  for (const Case& c : kCases)
    for (const float spread : {1.0f, 60.0f}) {
      SCOPED_TRACE(c.format.name());
      const auto rows = normal_values(kRows * c.format.width, 5);
      auto q = normal_values(kQueries * c.key_width, 6);
      for (float& x : q) x *= spread;
      const std::vector<int> visible(kQueries, kRows);
      const auto with = [&](Dots form) {
        use_dots(form);
        return attend_all(level, Arithmetic::kFast, c.format, rows, q, c.key_width, c.value_first,
                          c.value_width, kQueries, kQueries, kRows, visible);
      };
      EXPECT_EQ(with(Dots::kFusedPairs), with(Dots::kInstruction));
    }
  use_dots(before);
}

}  // namespace
}  // namespace seekline
