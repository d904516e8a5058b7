// Latent attention by heads: absorbed and expanded orders against ordinary attention in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "attention/expand_attend.h"
#include "attention/gather_attend.h"
#include "attention/latent_heads.h"
#include "formats/elements.h"
#include "kernels/exact.h"

namespace seekline {
namespace {

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

std::vector<float> normal_values(std::int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(size(n));
  for (float& v : values) v = bf16_to_f32(f32_to_bf16(normal(random)));
  return values;
}

// Random heads over random rows, and the attention of every query in f64.
struct LatentCase {
  LatentHeads heads;
  std::vector<std::uint16_t> kv_b;
  std::vector<float> rows, q;
  std::vector<RowRef> refs;
  RowFormat format;
  std::int64_t row_count, tokens;
  float scale = 0.2f;

  LatentCase(std::int64_t row_count, std::int64_t tokens) : row_count(row_count), tokens(tokens) {
    heads.heads = 3;
    heads.latent = 48;
    heads.nope = 20;
    heads.rope = 8;
    heads.value = 24;
    for (const float v : normal_values(heads.heads * heads.head_rows() * heads.latent, 1))
      kv_b.push_back(f32_to_bf16(0.2f * v));
    heads.kv_b = {WeightKind::kBF16,
                  ScaleKind::kNone,
                  heads.heads * heads.head_rows(),
                  heads.latent,
                  reinterpret_cast<const std::uint8_t*>(kv_b.data()),
                  nullptr,
                  0,
                  0};
    rows = normal_values(row_count * heads.latent_width(), 2);
    q = normal_values(tokens * heads.heads * heads.key_width(), 3);
    format = {RowKind::kF32, heads.latent_width()};
    for (std::int64_t r = 0; r < row_count; ++r)
      refs.push_back(
          {reinterpret_cast<const std::uint8_t*>(rows.data() + r * heads.latent_width()), nullptr});
  }

  MatrixView<const float> queries() const { return {q.data(), tokens, heads.heads * heads.key_width()}; }
  double weight(std::int64_t row, int c) const { return weight_value(heads.kv_b, row, c); }

  /// Row `row` as head `h` sees it: channel d of its key or value.
  double key(std::int64_t row, int h, int d) const {
    const float* r = rows.data() + row * heads.latent_width();
    if (d >= heads.nope) return r[heads.latent + d - heads.nope];
    double sum = 0;
    for (int c = 0; c < heads.latent; ++c) sum += weight(h * heads.head_rows() + d, c) * r[c];
    return sum;
  }
  double value(std::int64_t row, int h, int d) const {
    const float* r = rows.data() + row * heads.latent_width();
    double sum = 0;
    for (int c = 0; c < heads.latent; ++c) sum += weight(h * heads.head_rows() + heads.nope + d, c) * r[c];
    return sum;
  }

  /// Token t sees the first row_count - tokens + t + 1 rows. -> [tokens, heads * value]
  std::vector<double> truth() const {
    std::vector<double> out;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (int h = 0; h < heads.heads; ++h) {
        const float* query = q.data() + (t * heads.heads + h) * heads.key_width();
        std::vector<double> mean(size(heads.value));
        double total = 0;
        for (std::int64_t row = 0; row < row_count - tokens + t + 1; ++row) {
          double score = 0;
          for (int d = 0; d < heads.key_width(); ++d) score += query[d] * key(row, h, d);
          const double w = std::exp(static_cast<double>(scale) * score);
          total += w;
          for (int d = 0; d < heads.value; ++d) mean[size(d)] += w * value(row, h, d);
        }
        for (const double m : mean) out.push_back(m / total);
      }
    return out;
  }
};

class LatentOrdersOfSums : public ::testing::TestWithParam<Arithmetic> {
 protected:
  LatentOrdersOfSums()
      : pool_(3),
        compute_{GetParam() == Arithmetic::kF32 ? exact_kernels() : kernels(),
                 pool_,
                 arena_,
                 {Activations::kReference, Rows::kF32, GetParam()}} {}

  double tolerance() const { return GetParam() == Arithmetic::kF32 ? 1e-5 : 0.03; }

  std::vector<float> expanded(const LatentCase& c, const std::vector<ExpandBlock>& blocks) {
    std::vector<float> out(size(c.tokens * c.heads.heads * c.heads.value));
    expand_attend(compute_, c.heads, c.scale, c.format, blocks, c.queries(),
                  {out.data(), c.tokens, c.heads.heads * c.heads.value});
    return out;
  }

  ThreadPool pool_;
  Arena arena_;
  Compute compute_;
};

TEST_P(LatentOrdersOfSums, ExpandedRowsGiveTheAttentionOfEveryHead) {
  const LatentCase c(1100, 70);  // more than one split of rows and one task of tokens
  const std::vector<float> out =
      expanded(c, {{0, c.tokens, c.refs.data(), c.row_count, c.row_count - c.tokens + 1}});
  const std::vector<double> truth = c.truth();
  for (std::size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], truth[i], tolerance()) << i;
}

TEST_P(LatentOrdersOfSums, TokensInBlocksOfAnySizeHaveTheSameBits) {
  const LatentCase c(1100, 70);
  const std::int64_t seen = c.row_count - c.tokens + 1;
  const std::vector<float> whole = expanded(c, {{0, c.tokens, c.refs.data(), c.row_count, seen}});
  for (const std::int64_t each : {1, 7, 64}) {
    std::vector<ExpandBlock> blocks;
    for (std::int64_t t = 0; t < c.tokens; t += each) {
      const std::int64_t n = std::min(each, c.tokens - t);
      blocks.push_back({t, n, c.refs.data(), seen + t + n - 1, seen + t});
    }
    EXPECT_EQ(expanded(c, blocks), whole) << each;
  }
}

TEST_P(LatentOrdersOfSums, AbsorbedQueriesGiveTheSameAttention) {
  const LatentCase c(200, 1);
  Arena::Scope scope(arena_);
  const MatrixView<float> q = absorb_queries(compute_, c.heads, c.queries());
  MatrixView<float> u = arena_.matrix(1, c.heads.heads * c.heads.latent);
  GatherQuery query;
  query.q = q.row(0);
  query.out = u.row(0);
  query.segments[0] = {&c.format, c.refs.data(), static_cast<int>(c.row_count)};
  GatherShape shape;
  shape.heads = c.heads.heads;
  shape.key_width = c.heads.latent_width();
  shape.value_width = c.heads.latent;
  shape.scale = c.scale;
  gather_attend(compute_, shape, {&query, 1});
  const MatrixView<float> out = unfold_values(compute_, c.heads, u);
  const std::vector<double> truth = c.truth();
  for (std::size_t i = 0; i < truth.size(); ++i) ASSERT_NEAR(out.data[i], truth[i], tolerance()) << i;
}

TEST_P(LatentOrdersOfSums, ManyTokensAreAbsorbedAndUnfoldedAsOneIs) {
  const LatentCase c(1, 300);
  Arena::Scope scope(arena_);
  const MatrixView<float> all = absorb_queries(compute_, c.heads, c.queries());
  const MatrixView<float> back =
      unfold_values(compute_, c.heads, {all.data, all.rows, c.heads.heads * c.heads.latent, all.stride});
  for (const std::int64_t t : {0, 1, 255, 256, 299}) {
    const MatrixView<const float> alone{c.queries().row(t), 1, c.queries().cols};
    const MatrixView<float> one = absorb_queries(compute_, c.heads, alone);
    EXPECT_TRUE(std::equal(one.row(0), one.row(0) + one.cols, all.row(t))) << t;
    const MatrixView<float> value =
        unfold_values(compute_, c.heads, {one.data, 1, c.heads.heads * c.heads.latent});
    EXPECT_TRUE(std::equal(value.row(0), value.row(0) + value.cols, back.row(t))) << t;
  }
}

INSTANTIATE_TEST_SUITE_P(Arithmetics, LatentOrdersOfSums,
                         ::testing::Values(Arithmetic::kFast, Arithmetic::kF32),
                         [](const auto& info) { return info.param == Arithmetic::kFast ? "Fast" : "F32"; });

}  // namespace
}  // namespace seekline
