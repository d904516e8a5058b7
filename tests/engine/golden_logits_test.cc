// Logits of the golden models in the modes that the three settings express.
#include "engine/golden_check.h"

namespace seekline::golden {
namespace {

TEST(GoldenLogits, V41TinyExact) { check_model("v41-tiny", kExact); }
TEST(GoldenLogits, V41TinyPlain) { check_model("v41-tiny", kPlain); }
TEST(GoldenLogits, V41TinyLongExact) { check_model("v41-tiny-long", kExact); }
TEST(GoldenLogits, V41TinyLongPlain) { check_model("v41-tiny-long", kPlain); }
TEST(GoldenLogits, V41TinyMtpExactWithDraftStagesUnused) { check_model("v41-tiny-mtp", kExact); }
TEST(GoldenLogits, V41TinyMtpPlain) { check_model("v41-tiny-mtp", kPlain); }
TEST(GoldenLogits, NanoV41TrainedExact) { check_model("nano-v41", kExact); }
TEST(GoldenLogits, NanoV41TrainedPlain) { check_model("nano-v41", kPlain); }
// Of a trained model with all quantizers every fifth row stands at an edge of some run.
TEST(GoldenLogits, ShippedModelExact) { check_folder(shipped_folder(), "shipped-official", kExact, 2); }
TEST(GoldenLogits, ShippedModelPlain) { check_folder(shipped_folder(), "shipped-official", kPlain); }
TEST(GoldenLogits, V4TinyExact) { check_model("v4-tiny", kExact); }
TEST(GoldenLogits, V4TinyPlain) { check_model("v4-tiny", kPlain); }
TEST(GoldenLogits, V4TinyPure) { check_model("v4-tiny", kPure); }
TEST(GoldenLogits, LlamaGqaF32Rows) { check_model("llama-gqa-tiny", kPlainF32Rows); }
TEST(GoldenLogits, LlamaGqaBF16Rows) { check_model("llama-gqa-tiny", kBF16Rows); }
TEST(GoldenLogits, LlamaMhaF32Rows) { check_model("llama-mha-tiny", kPlainF32Rows); }
TEST(GoldenLogits, LlamaMhaBF16Rows) { check_model("llama-mha-tiny", kBF16Rows); }
TEST(GoldenLogits, LlamaMqaF32Rows) { check_model("llama-mqa-tiny", kPlainF32Rows); }
TEST(GoldenLogits, LlamaMqaBF16Rows) { check_model("llama-mqa-tiny", kBF16Rows); }

// The rounding of `fast` may not lead further from `exact` than the released script's own bf16 does.
void check_fast(const std::string& name) {
  const std::shared_ptr<Model> model = open_model(name, {});
  const SafetensorsLite expected(model_folder(name) + "/expected.safetensors");
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  std::ifstream file(model_folder(name) + "/cases.json");
  const auto json = nlohmann::json::parse(file);
  std::map<std::string, std::vector<std::int64_t>> released_rows;
  for (const auto& entry : json.at("cases"))
    if (entry.contains("released_rows"))
      released_rows[entry.at("id")] = entry["released_rows"].get<std::vector<std::int64_t>>();
  double ours = 0, released = 0;
  int rows = 0;
  for (const GoldenCase& c : golden_cases(model_folder(name))) {
    if (!expected.has(c.id + "/released/logits")) continue;
    const std::vector<float> got = all_logits(*model, c.tokens, {c.tokens.size()});
    const std::vector<float> exact = expected.at(c.id + "/exact/logits").as<float>();
    const std::vector<float> script = expected.at(c.id + "/released/logits").as<float>();
    const auto& positions = released_rows.count(c.id) ? released_rows[c.id] : c.rows;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const auto at = std::find(c.rows.begin(), c.rows.end(), positions[i]);
      if (at == c.rows.end()) continue;
      const float* want = exact.data() + static_cast<std::size_t>(at - c.rows.begin()) * vocab;
      const double a =
          rms_difference(got.data() + static_cast<std::size_t>(positions[i]) * vocab, want, vocab);
      const double b = rms_difference(script.data() + i * vocab, want, vocab);
      ours += a * a;
      released += b * b;
      ++rows;
    }
  }
  ASSERT_GT(rows, 0);
  EXPECT_LE(std::sqrt(ours / rows), std::sqrt(released / rows));
}

TEST(GoldenLogits, FastIsNoFurtherFromExactThanReleasedOnV41Tiny) { check_fast("v41-tiny"); }
TEST(GoldenLogits, FastIsNoFurtherFromExactThanReleasedOnV4Tiny) { check_fast("v4-tiny"); }
TEST(GoldenLogits, FastIsNoFurtherFromExactThanReleasedOnV41TinyLong) { check_fast("v41-tiny-long"); }

}  // namespace
}  // namespace seekline::golden
