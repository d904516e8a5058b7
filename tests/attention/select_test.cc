#include "attention/select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace seekline {
namespace {

std::vector<std::int32_t> by_sorting(const std::vector<float>& scores, std::size_t k) {
  std::vector<std::int32_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(std::min(k, order.size()));
  std::sort(order.begin(), order.end());
  return order;
}

// All ways to select must agree.
std::vector<std::int32_t> selected(const std::vector<float>& scores, std::int64_t k) {
  static ThreadPool pool(3);
  static Arena arena;
  const auto n = static_cast<std::int64_t>(scores.size());
  std::vector<std::int32_t> out(static_cast<std::size_t>(k)), other(out), shared(out), scratch(scores.size());
  out.resize(static_cast<std::size_t>(select_top_k(scores.data(), n, k, out.data())));
  other.resize(static_cast<std::size_t>(select_top_k(scores.data(), n, k, other.data(), scratch.data())));
  shared.resize(static_cast<std::size_t>(
      select_top_k(pool, arena, scores.data(), n, k, shared.data(), scratch.data())));
  EXPECT_EQ(other, out);
  EXPECT_EQ(shared, out);
  return out;
}

TEST(SelectTopK, EqualsAStableSortOnRandomScoresWithManyTies) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> scores(1 + random() % 3000);
    const int distinct = trial % 3 == 0 ? 4 : trial % 3 == 1 ? 100 : 1 << 20;
    for (float& s : scores)
      s = (static_cast<float>(random() % static_cast<unsigned>(distinct)) - 50.0f) * 0.37f;
    const std::int64_t k = 1 + static_cast<std::int64_t>(random() % 600);
    EXPECT_EQ(selected(scores, k), by_sorting(scores, static_cast<std::size_t>(k))) << trial;
  }
}

TEST(SelectTopK, BothZerosAreEqualAndTheLowerIndexWins) {
  EXPECT_EQ(selected({-0.0f, 0.0f, -0.0f, 1.0f, 0.0f}, 3), (std::vector<std::int32_t>{0, 1, 3}));
}

TEST(SelectTopK, FewerThanKGivesAll) {
  EXPECT_EQ(selected({3, 1, 2}, 5), (std::vector<std::int32_t>{0, 1, 2}));
}

TEST(SelectTopK, InfinitiesAndNanHaveTheirPlaces) {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(selected({nan, -inf, inf, 2, nan}, 2), (std::vector<std::int32_t>{2, 3}));
  EXPECT_EQ(selected({nan, -inf, inf, 2, nan}, 3), (std::vector<std::int32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace seekline
