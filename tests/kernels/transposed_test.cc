// Products along the rows of a weight, on every level.
#include <gtest/gtest.h>

#include "kernel_cases.h"
#include "kernels/dots.h"
#include "kernels/exact.h"

namespace seekline {
namespace {

using namespace kernel_cases;

struct Shape {
  WeightKind kind;
  ScaleKind scale_kind;
  int block;
  std::int64_t rows, cols;
  std::int64_t row_begin, row_end;
};

const Shape kShapes[] = {
    {WeightKind::kBF16, ScaleKind::kNone, 0, 64, 512, 0, 64},
    {WeightKind::kBF16, ScaleKind::kNone, 0, 70, 88, 5, 68},
    {WeightKind::kE4M3, ScaleKind::kF32, 128, 256, 512, 64, 192},  // over the edge of a block of scales
    {WeightKind::kE4M3, ScaleKind::kF32, 128, 256, 256, 128, 256},
    {WeightKind::kE4M3, ScaleKind::kF32, 128, 200, 192, 3, 131},
    {WeightKind::kE4M3, ScaleKind::kUE8M0, 128, 256, 192, 0, 33},
    {WeightKind::kF32, ScaleKind::kNone, 0, 20, 40, 0, 20},
    {WeightKind::kF16, ScaleKind::kNone, 0, 20, 130, 2, 20},
};

class TransposedCase {
 public:
  TransposedCase(const Shape& shape, std::int64_t tokens)
      : weights_(shape.kind, shape.scale_kind, shape.rows, shape.cols, shape.block, shape.block, 11),
        shape_(shape),
        tokens_(tokens),
        x_(normal_values(tokens * rows(), 12)) {}

  std::int64_t rows() const { return shape_.row_end - shape_.row_begin; }
  float x(std::int64_t t, std::int64_t r) const { return x_[size(t * rows() + r)]; }
  const WeightView& w() const { return weights_.view; }
  const Shape& shape() const { return shape_; }

  /// Tokens [first, first + tokens), in column ranges of at most `cols`.
  std::vector<float> run(const Kernels& level, Arithmetic arithmetic, std::int64_t first, std::int64_t tokens,
                         std::int64_t cols) const {
    std::vector<float> y(size(tokens * w().cols), 99.0f);
    Buffer<std::uint8_t> scratch(size(level.transposed_scratch_bytes(rows(), w().cols, tokens)));
    std::vector<const float*> xs;
    std::vector<float*> ys;
    for (std::int64_t t = 0; t < tokens; ++t) {
      xs.push_back(x_.data() + (first + t) * rows());
      ys.push_back(y.data() + t * w().cols);
    }
    TransposedMatmul m;
    m.w = w();
    m.arithmetic = arithmetic;
    m.row_begin = shape_.row_begin;
    m.row_end = shape_.row_end;
    m.x = xs.data();
    m.y = ys.data();
    m.tokens = tokens;
    m.scratch = scratch.data();
    for (m.col_begin = 0; m.col_begin < w().cols; m.col_begin = m.col_end) {
      m.col_end = std::min(w().cols, m.col_begin + cols);
      level.matmul_transposed(m);
    }
    return y;
  }

 private:
  Weights weights_;
  Shape shape_;
  std::int64_t tokens_;
  std::vector<float> x_;
};

void expect_sums(const TransposedCase& c, const std::vector<float>& y, std::int64_t tokens, double relative) {
  for (std::int64_t t = 0; t < tokens; ++t)
    for (std::int64_t k = 0; k < c.w().cols; ++k) {
      double sum = 0, magnitude = 0;
      for (std::int64_t r = 0; r < c.rows(); ++r) {
        const double term = static_cast<double>(c.x(t, r)) * weight_value(c.w(), c.shape().row_begin + r, k);
        sum += term;
        magnitude += std::fabs(term);
      }
      ASSERT_NEAR(y[size(t * c.w().cols + k)], sum, relative * magnitude) << t << " " << k;
    }
}

TEST(TransposedProducts, EqualTheSumInF64) {
  for (const Kernels* level : levels())
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(name_of(*level));
      const TransposedCase c(shape, 9);
      expect_sums(c, c.run(*level, Arithmetic::kF32, 0, 9, 1024), 9, 32 * 0x1p-24);
      expect_sums(c, c.run(*level, Arithmetic::kFast, 0, 9, 1024), 9, 0x1p-8);  // x rounded to bf16
    }
}

TEST(TransposedProducts, ATokenAloneOrAPieceOfTheColumnsGivesTheSameBits) {
  for (const Kernels* level : levels())
    for (const Shape& shape : kShapes)
      for (Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
        const TransposedCase c(shape, 15);
        const std::vector<float> all = c.run(*level, arithmetic, 0, 15, 1024);
        EXPECT_EQ(c.run(*level, arithmetic, 0, 15, 128), all) << name_of(*level);
        for (const std::int64_t tokens : {1, 2, 3, 4, 5, 6, 7, 11})
          for (std::int64_t t = 0; t + tokens <= 15; t += tokens) {
            const std::vector<float> some = c.run(*level, arithmetic, t, tokens, 256);
            EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + t * c.w().cols))
                << name_of(*level) << " " << tokens << " tokens from " << t;
          }
      }
}

TEST(TransposedProducts, BothFormsOfDotsGiveTheSameBits) {
  if (!isa_supported(Isa::kAvx512Bf16)) GTEST_SKIP() << "this CPU has no AVX512-BF16";
  if (!dots_agree()) GTEST_SKIP() << "this CPU's VDPBF16PS rounds in a way of its own: it is always in force";
  const Dots before = dots();
  for (const Shape& shape : kShapes)
    for (const std::int64_t tokens : {1, 3, 4, 5, 9}) {
      const TransposedCase c(shape, tokens);
      const auto with = [&](Dots form) {
        use_dots(form);
        return c.run(kernels_at(Isa::kAvx512Bf16), Arithmetic::kFast, 0, tokens, 1024);
      };
      EXPECT_EQ(with(Dots::kFusedPairs), with(Dots::kInstruction)) << tokens;
    }
  use_dots(before);
}

TEST(TransposedProducts, OfTheExactTableAreRoundedOnce) {
  for (const Shape& shape : kShapes) {
    const TransposedCase c(shape, 3);
    expect_sums(c, c.run(exact_kernels(), Arithmetic::kF32, 0, 3, 128), 3, 0x1p-24);
  }
}

}  // namespace
}  // namespace seekline
