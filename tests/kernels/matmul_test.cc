// Products with released weights on every level: right, and the same bits however the work is cut.
#include <gtest/gtest.h>

#include "formats/elements.h"
#include "kernel_cases.h"
#include "kernels/dots.h"

namespace seekline {
namespace {

using namespace kernel_cases;

struct Case {
  const char* name;
  WeightKind kind;
  ScaleKind scale_kind;
  int block_rows, block_cols;
  BlockQuantizer quantizer;
};

const Case kCases[] = {
    {"f32", WeightKind::kF32, ScaleKind::kNone, 0, 0, BlockQuantizer::kNone},
    {"f16", WeightKind::kF16, ScaleKind::kNone, 0, 0, BlockQuantizer::kNone},
    {"bf16", WeightKind::kBF16, ScaleKind::kNone, 0, 0, BlockQuantizer::kNone},
    {"v41 dense", WeightKind::kE4M3, ScaleKind::kUE8M0, 32, 32, BlockQuantizer::kFp8Block32},
    {"v4 dense", WeightKind::kE4M3, ScaleKind::kUE8M0, 128, 128, BlockQuantizer::kFp8Block128},
    {"v3 dense", WeightKind::kE4M3, ScaleKind::kF32, 128, 128, BlockQuantizer::kFp8Block128F32},
    {"expert", WeightKind::kE2M1, ScaleKind::kUE8M0, 1, 32, BlockQuantizer::kFp8Block32},
    {"engram table", WeightKind::kE4M3, ScaleKind::kUE8M0, 1, 32, BlockQuantizer::kNone},
};

struct Shape {
  std::int64_t rows, cols;
};

// Whole blocks, partial ones on both sides, and the tiny models' widths.
const Shape kShapes[] = {{64, 256}, {45, 96}, {130, 352}, {7, 64}, {33, 32}, {16, 1184}};

TEST(Matmul, EqualsTheSumInF64WithinTheRoundingOfItsTerms) {
  for (const Kernels* level : levels()) {
    for (const Case& c : kCases) {
      for (const Shape& shape : kShapes) {
        for (Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
          SCOPED_TRACE(name_of(*level) + " " + c.name + " " + std::to_string(shape.rows) + "x" +
                       std::to_string(shape.cols));
          constexpr std::int64_t kTokens = 7;
          const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 1);
          const auto x = normal_values(kTokens * shape.cols, 2);
          const auto y = Products(*level, w.view, arithmetic, c.quantizer, x, kTokens).all();
          // `fast` may round x to bf16 (2^-9 of each term); a power-of-two quantizer leaves nothing to round.
          const bool exact_input =
              arithmetic == Arithmetic::kF32 ||
              (c.quantizer != BlockQuantizer::kNone && c.quantizer != BlockQuantizer::kFp8Block128F32);
          std::vector<float> row(size(shape.cols)), q(size(shape.cols));
          for (std::int64_t o = 0; o < shape.rows; ++o) {
            decode_weight_row(w.view, o, row.data());
            for (std::int64_t t = 0; t < kTokens; ++t) {
              quantize_values(c.quantizer, {x.data() + t * shape.cols, size(shape.cols)}, q);
              double sum = 0, magnitude = 0, squares = 0;
              for (std::size_t k = 0; k < q.size(); ++k) {
                const double term = static_cast<double>(q[k]) * row[k];
                sum += term;
                magnitude += std::fabs(term);
                squares += term * term;
              }
              // Sums of K terms in 16 lanes: at most (K / 16 + 8) roundings each term passes through.
              double tolerance = (static_cast<double>(shape.cols) / 8 + 16) * 0x1p-24 * magnitude + 1e-30;
              if (!exact_input) tolerance += 6 * 0x1p-9 * std::sqrt(squares);
              ASSERT_NEAR(y[size(t * shape.rows + o)], sum, tolerance) << "token " << t << " row " << o;
            }
          }
        }
      }
    }
  }
}

TEST(Matmul, BitsDoNotDependOnTheNumberOfTokens) {
  constexpr std::int64_t kMost = 70;
  for (const Kernels* level : levels()) {
    for (const Case& c : kCases) {
      for (const Shape& shape : {Shape{37, 224}, Shape{20, 1120}, Shape{390, 288}}) {
        for (Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
          SCOPED_TRACE(name_of(*level) + " " + c.name);
          const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 3);
          const auto x = normal_values(kMost * shape.cols, 4);
          Products products(*level, w.view, arithmetic, c.quantizer, x, kMost);
          std::vector<float> alone(size(kMost * shape.rows));
          for (std::int64_t t = 0; t < kMost; ++t) products.run(0, shape.rows, t, 1, false, alone);
          // Every number of tokens for the small shape; a few around the micro-kernels' edges for the large
          // ones.
          for (std::int64_t tokens = 1; tokens <= kMost; tokens += shape.rows * shape.cols > 20000 ? 11 : 1) {
            std::vector<float> together(alone.size());
            for (std::int64_t t = 0; t < kMost; t += tokens)
              products.run(0, shape.rows, t, std::min(tokens, kMost - t), false, together);
            ASSERT_EQ(together, alone) << tokens << " tokens";
          }
        }
      }
    }
  }
}

// Long rows are multiplied in parts, and the sums of only so many tokens wait between these.
TEST(Matmul, BitsDoNotDependOnHowLongRowsAreCut) {
  constexpr std::int64_t kTokens = 530;
  const Shape shape{9, 11296};
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 3);
    const auto x = normal_values(kTokens * shape.cols, 4);
    Products products(kernels(), w.view, Arithmetic::kFast, c.quantizer, x, kTokens);
    std::vector<float> alone(size(kTokens * shape.rows)), together(alone.size());
    for (std::int64_t t = 0; t < kTokens; ++t) products.run(0, shape.rows, t, 1, false, alone);
    products.run(0, shape.rows, 0, kTokens, false, together);
    ASSERT_EQ(together, alone);
  }
}

// On CPUs where the two round alike, which is where both may be in force.
TEST(Matmul, BothFormsOfDotsGiveTheSameBits) {
  if (!isa_supported(Isa::kAvx512Bf16)) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  if (!dots_agree()) GTEST_SKIP() << "this CPU's VDPBF16PS rounds in a way of its own: it is always in force";
  const Kernels& level = kernels_at(Isa::kAvx512Bf16);
  const Dots before = dots();
  for (const Case& c : kCases) {
    for (const Shape& shape : {Shape{37, 224}, Shape{20, 1120}, Shape{70, 5120}}) {
      const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 3);
      for (std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 23, 100}) {
        SCOPED_TRACE(std::string(c.name) + ", " + std::to_string(tokens) + " tokens");
        const auto x = normal_values(tokens * shape.cols, 4);
        const auto with = [&](Dots form) {
          use_dots(form);
          return Products(level, w.view, Arithmetic::kFast, c.quantizer, x, tokens).all();
        };
        ASSERT_EQ(with(Dots::kFusedPairs), with(Dots::kInstruction));
      }
    }
  }
  use_dots(before);
}

TEST(Matmul, BitsDoNotDependOnHowRowsAreSplit) {
  const Shape shape{70, 288};
  for (const Kernels* level : levels()) {
    for (const Case& c : kCases) {
      for (std::int64_t tokens : {1, 3, 9}) {
        SCOPED_TRACE(name_of(*level) + " " + c.name);
        const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 5);
        Products products(*level, w.view, Arithmetic::kFast, c.quantizer,
                          normal_values(tokens * shape.cols, 6), tokens);
        const auto whole = products.all();
        for (std::int64_t cut = 1; cut < shape.rows; ++cut) {
          std::vector<float> parts(whole.size());
          products.run(0, cut, 0, tokens, false, parts);
          products.run(cut, shape.rows, 0, tokens, false, parts);
          ASSERT_EQ(parts, whole) << "cut at " << cut;
        }
      }
    }
  }
}

TEST(Matmul, AccumulateAddsTheFinishedSumOnceAndWritesNothingElse) {
  const Shape shape{50, 160};
  for (const Kernels* level : levels()) {
    for (const Case& c : kCases) {
      for (std::int64_t tokens : {2, 11}) {
        SCOPED_TRACE(name_of(*level) + " " + c.name);
        const Weights w(c.kind, c.scale_kind, shape.rows, shape.cols, c.block_rows, c.block_cols, 7);
        Products products(*level, w.view, Arithmetic::kFast, c.quantizer,
                          normal_values(tokens * shape.cols, 8), tokens);
        const auto sums = products.all();
        auto y = normal_values(tokens * shape.rows, 9);
        const auto before = y;
        products.run(5, 43, 0, tokens, true, y);
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t o = 0; o < shape.rows; ++o) {
            const std::size_t i = size(t * shape.rows + o);
            ASSERT_EQ(y[i], o >= 5 && o < 43 ? before[i] + sums[i] : before[i]) << t << " " << o;
          }
      }
    }
  }
}

// A dot product in bf16 hardware takes subnormal inputs as zero: e4m3's subnormals must not be among them.
TEST(Matmul, EveryE4m3CodeCounts) {
  Weights w(WeightKind::kE4M3, ScaleKind::kUE8M0, 256, 64, 1, 32, 10);
  for (std::size_t r = 0; r < 256; ++r)
    for (std::size_t k = 0; k < 64; ++k)
      w.data[r * 64 + k] = static_cast<std::uint8_t>(k == r % 64 && (r & 0x7F) != 0x7F ? r : 0);
  for (const Kernels* level : levels()) {
    const std::vector<float> x(64 * 9, 1.0f);
    for (std::int64_t tokens : {1, 9}) {
      const auto y = Products(*level, w.view, Arithmetic::kFast, BlockQuantizer::kNone, x, tokens).all();
      for (std::int64_t r = 0; r < 256; ++r)
        if ((r & 0x7F) != 0x7F) {
          ASSERT_EQ(y[size(r)], weight_value(w.view, r, r % 64)) << name_of(*level) << " code " << r;
        }
    }
  }
}

TEST(Prepare, QuantizesAsTheScalarTruth) {
  // Through a product with the identity, which shows the prepared values one by one.
  constexpr std::int64_t kN = 160;
  Weights identity(WeightKind::kF32, ScaleKind::kNone, kN, kN, 0, 0, 11);
  std::vector<float> ones(size(kN * kN));
  for (std::int64_t i = 0; i < kN; ++i) ones[size(i * kN + i)] = 1;
  std::memcpy(identity.data.data(), ones.data(), ones.size() * 4);
  for (const Kernels* level : levels())
    for (BlockQuantizer quantizer :
         {BlockQuantizer::kNone, BlockQuantizer::kFp8Block32, BlockQuantizer::kFp8Block64,
          BlockQuantizer::kFp8Block128, BlockQuantizer::kFp8Block128F32, BlockQuantizer::kFp4Block32,
          BlockQuantizer::kFp4Block16})
      for (float sigma : {1e-6f, 0.02f, 1.0f, 300.0f, 1e6f}) {
        const auto x = normal_values(kN, 12, sigma);
        std::vector<float> expected(size(kN));
        quantize_values(quantizer, x, expected);
        EXPECT_EQ(Products(*level, identity.view, Arithmetic::kF32, quantizer, x, 1).all(), expected)
            << name_of(*level) << " quantizer " << static_cast<int>(quantizer);
      }
}

}  // namespace
}  // namespace seekline
