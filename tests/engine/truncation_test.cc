// The omitted mass, its bound and the measured change, on every family that selects.
#include "engine/truncation.h"

#include "engine/golden_model.h"

namespace seekline::golden {
namespace {

struct Measured {
  std::vector<Truncation> found;
  CachePlan plan;
};

Measured measure(const std::string& name, std::size_t limit) {
  NumericSettings settings;
  settings.arithmetic = Arithmetic::kF32;
  settings.latent_order = LatentOrder::kAbsorb;
  const std::shared_ptr<Model> model = open_model(name, settings);
  std::vector<std::int32_t> tokens;
  for (const GoldenCase& c : golden_cases(model_folder(name)))
    if (c.tokens.size() > tokens.size()) tokens = c.tokens;
  tokens.resize(std::min(tokens.size(), limit));
  TruncationProbe probe(0);
  all_logits(*model, tokens, in_chunks(tokens.size(), 50), &probe);
  return {probe.found(), model->plan()};
}

void check_truncation(const std::string& name, std::size_t limit) {
  const Measured m = measure(name, limit);
  int cut = 0;
  double most = 0;
  for (const Truncation& t : m.found) {
    const Select& select = m.plan.layers[static_cast<std::size_t>(t.layer)].select;
    ASSERT_NE(select.how, Select::How::kAll) << name;
    ASSERT_GE(t.omitted, 0) << name;
    ASSERT_LE(t.omitted, 1) << name;
    ASSERT_LE(t.change, t.bound * (1 + 1e-12) + 1e-15)
        << name << " layer " << t.layer << " position " << t.position;
    ASSERT_NEAR(t.change, t.rest_change, 1e-9 * (1 + t.bound)) << name;
    // What is kept is what the engine attended to.
    ASSERT_LT(t.engine_error, 2e-4) << name << " layer " << t.layer << " head " << t.head << " position "
                                    << t.position;
    if (t.selected == t.eligible) {
      ASSERT_EQ(t.omitted, 0) << name;
      ASSERT_LT(t.change, 1e-12) << name;
    } else {
      ++cut;
      ASSERT_GT(t.omitted, 0) << name;
      most = std::max(most, t.omitted);
    }
  }
  EXPECT_GT(cut, 0) << name << ": no token had more rows than it may select";
  EXPECT_GT(most, 0.01) << name;
}

TEST(Truncation, OfCsa2OnV41Tiny) { check_truncation("v41-tiny-long", 200); }
TEST(Truncation, OfCsaOnV4Tiny) { check_truncation("v4-tiny", 200); }
TEST(Truncation, OfDsaOnV32Tiny) { check_truncation("v32-tiny", 120); }
TEST(Truncation, OfDsaOnV32TinyFp8) { check_truncation("v32-tiny-fp8", 120); }

TEST(Truncation, MeasuresOnlyTheTokensAskedFor) {
  const std::shared_ptr<Model> model = open_model("v4-tiny", {});
  const std::vector<std::int32_t> tokens(60, 7);
  TruncationProbe probe(57);
  all_logits(*model, tokens, {tokens.size()}, &probe);
  ASSERT_EQ(probe.found().size(), 3U * 4);  // one CSA layer, four heads
  EXPECT_EQ(probe.found().front().position, 57);
  EXPECT_EQ(probe.found().front().eligible, 14);
  EXPECT_EQ(probe.found().front().selected, 8);
}

}  // namespace
}  // namespace seekline::golden
