// V2-Lite at its released widths (golden/data/synth/v2lite-true3): the weights are written by formula into a
// temporary folder, 0.6 GB of it. The long case runs where SEEKLINE_LARGE_TESTS is set.
#include "engine/written_shapes.h"

namespace seekline::golden {
namespace {

constexpr double kF32Rounding = 2e-5;
// Five tokens have 8,640 values that are rounded to bf16; where one of them stands at an edge, logits move by
// 1e-4.
constexpr double kBF16Edges = 5e-4;

// `most`: rms by which the last token's logits may differ.
void check_logits(const WrittenShapes& shapes, Mode mode, LatentOrder order, const std::string& id,
                  double most) {
  mode.settings.latent_order = order;
  const auto model = shapes.open(mode.settings);
  const GoldenCase c = shapes.golden_case(id);
  const RowCheck row =
      compare_rows(shapes.expected(), c, mode.name, all_logits(*model, c.tokens, {c.tokens.size()}),
                   static_cast<std::size_t>(model->vocab_size()));
  EXPECT_EQ(row.clean, 1);
  EXPECT_LE(row.worst_clean, most) << id << " " << mode.name;
}

TEST(TrueShapes, OfV2LiteGiveTheLogitsOfTheReference) {
  if (const std::string why = too_much(1'000'000'000); !why.empty()) GTEST_SKIP() << why;
  const WrittenShapes shapes("v2lite-true3");
  check_logits(shapes, kPlainF32Rows, LatentOrder::kAbsorb, "s5", kF32Rounding);
  check_logits(shapes, kPlainF32Rows, LatentOrder::kExpand, "s5", kF32Rounding);
  check_logits(shapes, kBF16Rows, LatentOrder::kAuto, "s5", kBF16Edges);
  if (wants_large()) check_logits(shapes, kPlainF32Rows, LatentOrder::kAuto, "s200", kF32Rounding);
}

}  // namespace
}  // namespace seekline::golden
