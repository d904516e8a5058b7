// Bounded replay, the one approximate way, answers what its definition says: masks over a full recomputation.
#include <cstdio>

#include "engine/golden_model.h"
#include "engine/timeline.h"
#include "engine/verify_reuse.h"
#include "seekline/session.h"

namespace seekline::golden {
namespace {

struct BoundedCase {
  std::string id;
  std::vector<std::int32_t> tokens;
  std::int64_t hit = 0, prompt = 0;
  DecoderMode decoder = DecoderMode::kCed;
};

std::vector<BoundedCase> bounded_cases(const std::string& folder) {
  std::ifstream file(folder + "/bounded.json");
  const auto json = nlohmann::json::parse(file);
  std::vector<BoundedCase> cases;
  for (const auto& entry : json.at("cases"))
    cases.push_back({entry.at("id"), entry.at("tokens").get<std::vector<std::int32_t>>(), entry.at("hit"),
                     entry.at("prompt"),
                     entry.at("decoder") == "ced" ? DecoderMode::kCed : DecoderMode::kExact});
  return cases;
}

// The prompt, then the other tokens as if they had been chosen: logits from the prompt's last token on.
std::vector<float> answer(Session& session, const BoundedCase& c) {
  const std::span<const std::int32_t> tokens(c.tokens);
  session.prompt(tokens.first(static_cast<std::size_t>(c.prompt)));
  std::vector<float> all(session.logits().begin(), session.logits().end());
  for (const std::int32_t token : tokens.subspan(static_cast<std::size_t>(c.prompt))) {
    session.extend(token);
    all.insert(all.end(), session.logits().begin(), session.logits().end());
  }
  return all;
}

class BoundedReplay : public ::testing::TestWithParam<std::string> {};

TEST_P(BoundedReplay, EqualsMasksOverAFullRecomputation) {
  const std::string folder = model_folder(GetParam());
  const SafetensorsLite expected(folder + "/bounded.safetensors");
  const std::vector<BoundedCase> cases = bounded_cases(folder);
  ASSERT_GE(cases.size(), 8u);
  for (const BoundedCase& c : cases) {
    ModelOptions options;
    options.settings = {Activations::kReference, Rows::kDeployed, Arithmetic::kF32};
    options.threads = 1;
    options.batch_tokens = 16;
    options.decoder = c.decoder;
    const std::shared_ptr<Model> model = Model::open(folder, options);
    Session cold(model);
    const std::vector<float> exact = answer(cold, c);

    // What begins alike and goes on differently leaves the rows of the first `hit` tokens.
    SessionOptions bounded;
    bounded.way = ReplayWay::kBounded;
    Session warm(model, bounded);
    std::vector<std::int32_t> other(c.tokens.begin(), c.tokens.begin() + c.hit);
    other.insert(other.end(), 5, (c.tokens[static_cast<std::size_t>(c.hit)] + 1) % 1000);
    warm.prompt(other);
    const std::vector<float> got = answer(warm, c);
    EXPECT_EQ(warm.reuse().reused_tokens, c.hit) << c.id;

    const std::vector<float> want = expected.at(c.id + "/logits").as<float>();
    const std::vector<float> noise = expected.at(c.id + "/noise_rows").as<float>();
    const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
    ASSERT_EQ(got.size(), want.size()) << c.id;
    for (std::size_t row = 0; row < noise.size(); ++row)
      EXPECT_LE(rms_difference(got.data() + row * vocab, want.data() + row * vocab, vocab),
                std::max(10.0 * static_cast<double>(noise[row]), 2e-5))
          << c.id << " row " << row;

    // Rows that were there stay as they were, and nothing else than the windows' start makes the difference.
    const bool is_cut = warm.reuse().approximate;
    EXPECT_EQ(is_cut, got != exact) << c.id;
    const double distance = rms_difference(got.data(), exact.data(), got.size());
    RecordProperty(c.id, std::to_string(distance));
    std::printf("%s %s: %s, rms distance of logits from cold %.3f\n", GetParam().c_str(), c.id.c_str(),
                warm.reuse().windows.c_str(), distance);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, BoundedReplay, ::testing::Values("v41-tiny", "v41-tiny-long"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace seekline::golden
