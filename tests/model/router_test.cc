// Routing of every generation against the reference's, and its ties.
#include "model/router.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "golden/safetensors_lite.h"

namespace seekline {
namespace {

using golden::SafetensorsLite;

std::string formats_folder() { return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/formats/"; }

RouterShape shape_of(const nlohmann::json& config) {
  RouterShape shape;
  const std::string scoring = config.at("scoring");
  shape.score = scoring == "sigmoid"   ? RouterScore::kSigmoid
                : scoring == "softmax" ? RouterScore::kSoftmax
                                       : RouterScore::kSqrtSoftplus;
  shape.experts = config.at("experts");
  shape.top = config.at("top");
  shape.normalise = scoring != "softmax";
  shape.sum_eps = config.at("eps");
  shape.scaling = config.at("scaling");
  shape.groups = config.at("groups");
  shape.group_top = config.at("groups_kept");
  shape.group_rule = scoring == "softmax" ? GroupRule::kMaximum : GroupRule::kTopTwo;
  return shape;
}

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routed routed(const RouterShape& shape, const float* logits, const float* bias) {
  Routed r{std::vector<std::int32_t>(static_cast<std::size_t>(shape.top)),
           std::vector<float>(static_cast<std::size_t>(shape.top))};
  std::vector<float> scratch(static_cast<std::size_t>(3 * shape.experts));
  route_token(shape, logits, bias, scratch.data(), r.experts.data(), r.weights.data());
  return r;
}

TEST(Router, ChoosesAndWeighsAsTheReferenceInEveryGeneration) {
  std::ifstream file(formats_folder() + "router.json");
  const auto configs = nlohmann::json::parse(file);
  const SafetensorsLite data(formats_folder() + "router.safetensors");
  int checked = 0;
  for (const std::string name : {"v41", "v41_draft", "v4", "v3", "v2", "v2lite"}) {
    const RouterShape shape = shape_of(configs.at(name));
    const auto logits = data.at(name + "/logits").as<float>();
    const auto experts = data.at(name + "/experts").as<std::int32_t>();
    const auto weights = data.at(name + "/weights_f64").as<double>();
    std::vector<float> bias;
    if (data.has(name + "/bias")) bias = data.at(name + "/bias").as<float>();
    const auto top = static_cast<std::size_t>(shape.top);
    for (std::size_t row = 0; row * top < experts.size(); ++row, ++checked) {
      const Routed r = routed(shape, logits.data() + row * static_cast<std::size_t>(shape.experts),
                              bias.empty() ? nullptr : bias.data());
      for (std::size_t i = 0; i < top; ++i) {
        ASSERT_EQ(r.experts[i], experts[row * top + i]) << name << " row " << row;
        ASSERT_NEAR(r.weights[i], weights[row * top + i], 1e-6 * weights[row * top + i])
            << name << " row " << row;
      }
    }
  }
  EXPECT_GT(checked, 100);
}

// Eight experts in four groups of two, two groups kept.
RouterShape small(GroupRule rule) {
  RouterShape shape;
  shape.score = RouterScore::kSigmoid;
  shape.experts = 8;
  shape.top = 3;
  shape.groups = 4;
  shape.group_top = 2;
  shape.group_rule = rule;
  return shape;
}

TEST(Router, OfEqualGroupsAndEqualExpertsTheLowerOnesAreTaken) {
  const std::vector<float> equal(8, 0.25f);
  for (const GroupRule rule : {GroupRule::kMaximum, GroupRule::kTopTwo})
    EXPECT_EQ(routed(small(rule), equal.data(), nullptr).experts, (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(Router, GroupsAreComparedByTheirBestOrByTheirTwoBest) {
  // Group 1 has the best expert and a poor second; groups 2 and 3 are good all through.
  const std::vector<float> logits{-9, -9, 3, -9, 2, 2, 1, 1};
  EXPECT_EQ(routed(small(GroupRule::kMaximum), logits.data(), nullptr).experts,
            (std::vector<std::int32_t>{2, 4, 5}));
  EXPECT_EQ(routed(small(GroupRule::kTopTwo), logits.data(), nullptr).experts,
            (std::vector<std::int32_t>{4, 5, 6}));
}

TEST(Router, TheBiasChoosesAndDoesNotWeigh) {
  RouterShape shape = small(GroupRule::kTopTwo);
  shape.groups = shape.group_top = 1;
  shape.top = 1;
  const std::vector<float> logits{2, 1, 0, 0, 0, 0, 0, 0}, bias{0, 0, 0, 5, 0, 0, 0, 0};
  const Routed r = routed(shape, logits.data(), bias.data());
  EXPECT_EQ(r.experts[0], 3);
  EXPECT_FLOAT_EQ(r.weights[0], 0.5f);
}

}  // namespace
}  // namespace seekline
