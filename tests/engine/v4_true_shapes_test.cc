// DeepSeek-V4 at its released widths (golden/data/synth/v4-true4): the weights are written by formula into a
// temporary folder, 1.5 GB of it. The long case runs where SEEKLINE_LARGE_TESTS is set (./dev test-large).
#include "engine/written_shapes.h"

namespace seekline::golden {
namespace {

// Root mean square distance of the last row of a case from the reference, and the reference's own noise.
struct Distance {
  double error, noise;
};

Distance distance(const WrittenShapes& shapes, const std::string& id, const Mode& mode,
                  const std::string& noise) {
  const auto model = shapes.open(mode.settings);
  const GoldenCase c = shapes.golden_case(id);
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  const std::vector<float> got = all_logits(*model, c.tokens, {c.tokens.size()});
  const std::vector<float> want = shapes.expected().at(id + "/" + mode.name + "/logits").as<float>();
  return {rms_difference(got.data() + static_cast<std::size_t>(c.rows[0]) * vocab, want.data(), vocab),
          static_cast<double>(shapes.expected().at(id + "/" + noise).as<float>()[1])};
}

TEST(TrueShapes, OfV4GiveTheLogitsOfTheReference) {
  if (const std::string why = too_much(2'000'000'000); !why.empty()) GTEST_SKIP() << why;
  const WrittenShapes shapes("v4-true4");
  // The sharp one: no quantizer of the reference stands at an edge.
  const Distance plain = distance(shapes, "s5", kPlain, "noise_plain");
  EXPECT_LT(plain.noise, 1e-5);
  EXPECT_LE(plain.error, std::max(10 * plain.noise, 2e-5));
  const Distance exact = distance(shapes, "s5", kExact, "noise");
  EXPECT_LE(exact.error, 3 * exact.noise);
  if (!wants_large()) return;
  const Distance long_plain = distance(shapes, "s300", kPlain, "noise_plain");
  EXPECT_LE(long_plain.error, 3 * long_plain.noise);
}

}  // namespace
}  // namespace seekline::golden
