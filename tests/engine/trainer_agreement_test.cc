// The shipped model computed by the engine and by the program that trained it.
#include "engine/golden_model.h"

namespace seekline::golden {
namespace {

// Rows that the trainer's own runs move by less than this stand at none of its edges ..
constexpr double kNoEdge = 1e-5;
// .. and the engine's row either equals it, or has an edge of its own, which moves it by far more.
constexpr double kRounding = 1e-5, kEdge = 1e-4;

TEST(TrainerAgreement, RowsWithoutAnEdgeDifferByRoundingAlone) {
  const std::shared_ptr<Model> model =
      open_folder(shipped_folder(), {Activations::kReference, Rows::kDeployed, Arithmetic::kF32});
  const SafetensorsLite expected(model_folder("shipped") + "/expected.safetensors");
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  int rows = 0, equal = 0;
  for (const GoldenCase& c : golden_cases(model_folder("shipped"))) {
    const std::vector<float> want = expected.at(c.id + "/exact/logits").as<float>();
    const std::vector<float> noise = expected.at(c.id + "/noise_rows").as<float>();
    const std::vector<float> got = all_logits(*model, c.tokens, {c.tokens.size()});
    for (std::size_t i = 0; i < c.rows.size(); ++i) {
      if (static_cast<double>(noise[i]) >= kNoEdge) continue;
      const double error = rms_difference(got.data() + static_cast<std::size_t>(c.rows[i]) * vocab,
                                          want.data() + i * vocab, vocab);
      ++rows;
      equal += error < kRounding;
      EXPECT_TRUE(error < kRounding || error > kEdge) << c.id << " row " << c.rows[i] << ": " << error;
    }
  }
  EXPECT_GE(rows, 8);
  EXPECT_GE(equal, rows - 1 - rows / 10) << "of " << rows << " rows; too many edges for chance";
}

}  // namespace
}  // namespace seekline::golden
