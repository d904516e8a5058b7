// The default model, SmolLM2-135M-Instruct with its real weights, against transformers in f32. The weights
// are fetched once (tools/default_model). Where that cannot be done the tests are skipped and say so, unless
// SEEKLINE_REQUIRE_DEFAULT_MODEL is set, as in CI: then they fail.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <nlohmann/json.hpp>

#include "e2e/program.h"
#include "engine/generate.h"
#include "golden/safetensors_lite.h"
#include "seekline/session.h"

namespace seekline::e2e {
namespace {

using golden::SafetensorsLite;

struct Fetched {
  std::string folder;  ///< empty: not there
  std::string why;
};

// The weights as the reference has them: dequantised to f32.
const Fetched& fetched() {
  static const Fetched result = [] {
    const std::string tool = std::string(SEEKLINE_SOURCE_DIR) + "/tools/default_model/fetch.py";
    const TempFolder folder;
    const std::string err = folder / "err";
    FILE* pipe = popen(("python3 '" + tool + "' --dtype f32 2>'" + err + "'").c_str(), "r");
    std::string out;
    for (char piece[256]; pipe != nullptr && std::fgets(piece, sizeof piece, pipe) != nullptr;) out += piece;
    const bool done = pipe != nullptr && pclose(pipe) == 0;
    while (!out.empty() && out.back() == '\n') out.pop_back();
    return done ? Fetched{out, ""} : Fetched{"", read_bytes(err)};
  }();
  return result;
}

class DefaultModel : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fetched().folder.empty()) return;
    ASSERT_EQ(std::getenv("SEEKLINE_REQUIRE_DEFAULT_MODEL"), nullptr) << fetched().why;
    GTEST_SKIP() << "the default model cannot be fetched: " << fetched().why;
  }

  static std::shared_ptr<Model> open(Arithmetic arithmetic) {
    ModelOptions options;
    options.settings = {Activations::kPlain, Rows::kF32, arithmetic, LatentOrder::kAuto};
    return Model::open(fetched().folder, options);
  }
  static nlohmann::json cases() {
    return nlohmann::json::parse(read_bytes(golden_data("models/smollm2-135m") / "cases.json"));
  }
};

TEST_F(DefaultModel, TheTokenizerGivesTheReferencesIds) {
  const auto model = open(Arithmetic::kF32);
  for (const auto& c : cases())
    EXPECT_EQ(model->encode(c["prompt"].get<std::string>(), true),
              c["tokens"].get<std::vector<std::int32_t>>());
}

TEST_F(DefaultModel, LogitsAreThoseOfTransformers) {
  const SafetensorsLite expected(golden_data("models/smollm2-135m") / "expected.safetensors");
  const auto model = open(Arithmetic::kF32);
  for (const auto& c : cases()) {
    const std::string id = c["id"];
    Session session(model);
    const auto best = expected.at(id + "/plain/argmax").as<std::int32_t>();
    const auto tokens = c["tokens"].get<std::vector<std::int32_t>>();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      session.append({&tokens[i], 1});
      const auto logits = session.logits();
      EXPECT_EQ(std::max_element(logits.begin(), logits.end()) - logits.begin(), best[i]) << id << " " << i;
    }
    const auto ids = expected.at(id + "/plain/top20.ids").as<std::int32_t>();
    const auto want = expected.at(id + "/plain/top20.logits").as<float>();
    const double scale = static_cast<double>(expected.at(id + "/plain/logits_rms").as<float>()[0]);
    const double noise = static_cast<double>(expected.at(id + "/noise").as<float>()[1]);
    double sum = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const double d = static_cast<double>(session.logits()[static_cast<std::size_t>(ids[i])]) -
                       static_cast<double>(want[i]);
      sum += d * d;
    }
    EXPECT_LE(std::sqrt(sum / static_cast<double>(ids.size())), std::max(10 * noise, 2e-5 * scale)) << id;
  }
}

// The smallest gap between the two best logits on these paths is 0.05: far above what `fast` rounds away.
TEST_F(DefaultModel, GreedyTextIsTheReferences) {
  const auto model = open(Arithmetic::kFast);
  for (const auto& c : cases()) {
    Session session(model);
    session.append(c["tokens"].get<std::vector<std::int32_t>>());
    std::vector<std::int32_t> text;
    const auto want = c["continuation"].get<std::vector<std::int32_t>>();
    while (text.size() < want.size()) {
      const auto logits = session.logits();
      text.push_back(
          static_cast<std::int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
      session.extend(text.back());
    }
    EXPECT_EQ(text, want) << c["id"];
  }
}

TEST_F(DefaultModel, AnswersInRealWords) {
  const Outcome answer = run_program(
      {"run", "--model", fetched().folder, "--max-tokens", "24", "What is the capital of France?"});
  EXPECT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, ::testing::HasSubstr("Paris"));
}

}  // namespace
}  // namespace seekline::e2e
