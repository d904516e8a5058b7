// V2, V2-Lite, V3 and V3.2: logits of the golden models in every order of latent attention.
#include "engine/golden_check.h"
#include "seekline/error.h"

namespace seekline::golden {
namespace {

class LatentOrders : public ::testing::TestWithParam<LatentOrder> {
 protected:
  Mode in_order(Mode mode) const {
    mode.settings.latent_order = GetParam();
    return mode;
  }
};

// Rows rounded to bf16 keep 8 bits of each of their values, so that within some ten tokens one of them stands
// at an edge in reach of f32's rounding; the files give no noise for this mode.
constexpr int kCasesAtBF16Edges = 3;

constexpr Mode kV32BF16Rows{"bf16rows", {Activations::kPlain, Rows::kBF16, Arithmetic::kF32}};

// V3.2 rounds keys and latents to bf16 in this mode, several hundred values a token: more edges than a nudge
// can pass at once. Each moves a logit by some 1e-5, while the mode itself stands 1e-3 from the one without
// rounding.
void check_rounded_rows(const std::string& name, const Mode& mode) {
  const std::shared_ptr<Model> model = open_model(name, mode.settings);
  const SafetensorsLite expected(model_folder(name) + "/expected.safetensors");
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  for (const GoldenCase& c : golden_cases(model_folder(name))) {
    if (!expected.has(c.id + "/" + mode.name + "/logits")) continue;
    const std::vector<float> got = all_logits(*model, c.tokens, {c.tokens.size()});
    const auto want = expected.at(c.id + "/" + mode.name + "/logits").as<float>();
    const auto plain = expected.at(c.id + "/plain/logits").as<float>();
    int at_edges = 0;
    for (std::size_t i = 0; i < c.rows.size(); ++i) {
      const double error = rms_difference(got.data() + static_cast<std::size_t>(c.rows[i]) * vocab,
                                          want.data() + i * vocab, vocab);
      EXPECT_LE(error, 2e-4) << c.id << " row " << c.rows[i];
      at_edges += error > 2e-5;
    }
    EXPECT_LE(at_edges, 2) << c.id;
    EXPECT_GE(rms_difference(want.data(), plain.data(), want.size()), 5e-4)
        << c.id << ": the mode is no test";
  }
}

TEST_P(LatentOrders, V2TinyWithF32Rows) { check_model("v2-tiny", in_order(kPlainF32Rows)); }
TEST_P(LatentOrders, V2TinyAsDeployed) { check_model("v2-tiny", in_order(kBF16Rows), kCasesAtBF16Edges); }
TEST_P(LatentOrders, V2LiteTinyWithF32Rows) { check_model("v2lite-tiny", in_order(kPlainF32Rows)); }
TEST_P(LatentOrders, V2LiteTinyAsDeployed) {
  check_model("v2lite-tiny", in_order(kBF16Rows), kCasesAtBF16Edges);
}
TEST_P(LatentOrders, V3TinyWithF32Rows) { check_model("v3-tiny", in_order(kPlainF32Rows)); }
TEST_P(LatentOrders, V3TinyAsDeployed) { check_model("v3-tiny", in_order(kBF16Rows), kCasesAtBF16Edges); }
TEST_P(LatentOrders, V32TinyWithF32Rows) { check_model("v32-tiny", in_order(kPlainF32Rows)); }
TEST_P(LatentOrders, V32TinyWithBF16Rows) { check_rounded_rows("v32-tiny", in_order(kV32BF16Rows)); }
TEST_P(LatentOrders, V32TinyAsDeployed) { check_model("v32-tiny", in_order(kExact)); }
TEST_P(LatentOrders, V32TinyFp8WithPlainInputs) { check_model("v32-tiny-fp8", in_order(kPlain)); }
TEST_P(LatentOrders, V32TinyFp8Unquantized) { check_model("v32-tiny-fp8", in_order(kPure)); }
TEST_P(LatentOrders, V32TinyFp8AsDeployed) {
  if (GetParam() == LatentOrder::kPreMerge) {
    EXPECT_THROW(open_model("v32-tiny-fp8", in_order(kExact).settings), Error);
  } else {
    check_model("v32-tiny-fp8", in_order(kExact));
  }
}

INSTANTIATE_TEST_SUITE_P(Orders, LatentOrders,
                         ::testing::Values(LatentOrder::kAuto, LatentOrder::kExpand, LatentOrder::kPreMerge),
                         [](const auto& info) {
                           return info.param == LatentOrder::kAuto     ? "Auto"
                                  : info.param == LatentOrder::kExpand ? "Expand"
                                                                       : "PreMerge";
                         });

// The lists that a forward publishes: "topk" of every indexer, "experts" of every router, one a token.
class ListTaps final : public Taps {
 public:
  using Lists = std::vector<std::vector<std::int32_t>>;
  std::map<std::string, Lists> lists_by_name;

  void floats(const char*, int, const TokenBatch&, MatrixView<const float>) override {}
  void integers(const char*, int, const TokenBatch&, MatrixView<const std::int64_t>) override {}
  void lists(const char* what, int layer, const TokenBatch& batch, const Selection& selection) override {
    Lists& out = lists_by_name[std::string(what) + "." + std::to_string(layer)];
    for (std::int64_t r = 0; r < batch.count; ++r)
      out.emplace_back(selection.list(r), selection.list(r) + selection.counts[r]);
  }
  void experts(int layer, const TokenBatch& batch, const Routing& routing) override {
    Lists& out = lists_by_name["experts." + std::to_string(layer)];
    for (std::int64_t r = 0; r < batch.count; ++r)
      out.emplace_back(routing.experts + r * routing.top, routing.experts + (r + 1) * routing.top);
  }
};

// Selected rows and experts of every token and layer; a list may differ where two of its scores are at
// rounding distance, and then later tokens may follow it.
void check_lists(const std::string& name, const Mode& mode) {
  const std::shared_ptr<Model> model = open_model(name, mode.settings);
  const SafetensorsLite expected(model_folder(name) + "/expected.safetensors");
  int rows = 0, different = 0;
  for (const GoldenCase& c : golden_cases(model_folder(name))) {
    ListTaps taps;
    all_logits(*model, c.tokens, {c.tokens.size()}, &taps);
    for (const auto& [what, lists] : taps.lists_by_name) {
      const std::string tensor = c.id + "/" + mode.name + "/" + what;
      if (!expected.has(tensor)) continue;
      const std::vector<std::int32_t> want = expected.at(tensor).as<std::int32_t>();
      const std::size_t width = want.size() / lists.size();
      for (std::size_t r = 0; r < lists.size(); ++r, ++rows) {
        std::vector<std::int32_t> padded = lists[r];
        padded.resize(width, -1);
        different +=
            !std::equal(padded.begin(), padded.end(), want.begin() + static_cast<std::ptrdiff_t>(r * width));
      }
    }
  }
  EXPECT_GT(rows, 100) << name;
  EXPECT_LE(different, rows / 200) << name << ": " << different << " of " << rows << " lists differ";
}

TEST(LatentModels, SelectTheRowsAndExpertsOfTheReference) {
  check_lists("v2-tiny", kPlainF32Rows);
  check_lists("v2lite-tiny", kPlainF32Rows);
  check_lists("v3-tiny", kPlainF32Rows);
  check_lists("v32-tiny", kExact);
  check_lists("v32-tiny", kPlainF32Rows);
  check_lists("v32-tiny-fp8", kExact);
  check_lists("v32-tiny-fp8", kPlain);
}

}  // namespace
}  // namespace seekline::golden
