// The orders of latent attention as a setting: what they promise about bits, and the rule that chooses.
#include "engine/golden_model.h"
#include "model/latent_cost.h"

namespace seekline::golden {
namespace {

constexpr const char* kModels[] = {"v2-tiny", "v2lite-tiny", "v3-tiny", "v32-tiny", "v32-tiny-fp8"};

NumericSettings in_order(LatentOrder order, Arithmetic arithmetic) {
  NumericSettings settings;
  settings.latent_order = order;
  settings.arithmetic = arithmetic;
  // Merged weights have no place for the quantizer of o_proj's input.
  if (order == LatentOrder::kPreMerge) settings.activations = Activations::kPlain;
  return settings;
}

std::vector<std::int32_t> long_case(const std::string& name, std::size_t limit) {
  std::vector<std::int32_t> longest;
  for (const GoldenCase& c : golden_cases(model_folder(name)))
    if (c.tokens.size() > longest.size()) longest = c.tokens;
  longest.resize(std::min(limit, longest.size()));
  return longest;
}

TEST(LatentOrder, EveryFixedOrderGivesTheSameBitsForAnyChunks) {
  for (const std::string name : kModels)
    for (const LatentOrder order : {LatentOrder::kExpand, LatentOrder::kPreMerge}) {
      const std::shared_ptr<Model> model = open_model(name, in_order(order, Arithmetic::kFast), 2);
      const std::vector<std::int32_t> tokens = long_case(name, 90);
      const std::vector<float> whole = all_logits(*model, tokens, {tokens.size()});
      for (const std::size_t chunk : {1, 3, 16, 64})
        EXPECT_TRUE(whole == all_logits(*model, tokens, in_chunks(tokens.size(), chunk)))
            << name << " " << latent_order_name(order) << " chunk " << chunk;
    }
}

TEST(LatentOrder, AutoIsAbsorbWhereADecodeStepIsCheaperByIt) {
  for (const std::string name : kModels) {
    const std::vector<std::int32_t> tokens = long_case(name, 60);
    EXPECT_TRUE(
        all_logits(*open_model(name, in_order(LatentOrder::kAuto, Arithmetic::kFast)), tokens, {60}) ==
        all_logits(*open_model(name, in_order(LatentOrder::kAbsorb, Arithmetic::kFast)), tokens, {60}))
        << name;
  }
}

LatentHeads released_heads(int heads) {
  LatentHeads h;
  h.heads = heads;
  h.latent = 512;
  h.nope = h.value = 128;
  h.rope = 64;
  h.kv_b = {WeightKind::kBF16, ScaleKind::kNone, heads * h.head_rows(), h.latent, nullptr, nullptr, 0, 0};
  return h;
}

TEST(LatentOrder, TheRuleAbsorbsForDecodeAndExpandsForLongBlocks) {
  for (const int count : {16, 128}) {
    const LatentHeads heads = released_heads(count);
    for (const std::int64_t rows : {512, 4096, 131072}) {
      EXPECT_EQ(cheaper_order(heads, 1, rows, true), LatentOrder::kAbsorb);
      EXPECT_EQ(cheaper_order(heads, rows, rows, true), LatentOrder::kExpand);
      const std::int64_t from = expand_from(heads, rows, true);
      EXPECT_EQ(cheaper_order(heads, from, rows, true), LatentOrder::kExpand);
      EXPECT_EQ(cheaper_order(heads, from - 1, rows, true), LatentOrder::kAbsorb);
    }
    // Where every token has a selection of its own, nothing is shared by expanding.
    EXPECT_EQ(expand_from(heads, 2048, false), 0);
  }
}

TEST(LatentOrder, ByCostGivesEachRunTheBitsOfTheOrderItTook) {
  const std::string name = "v2-tiny";
  LatentHeads heads = released_heads(4);
  heads.latent = 64;
  heads.nope = heads.value = 32;
  heads.rope = 16;
  heads.kv_b.rows = 4 * heads.head_rows();
  heads.kv_b.cols = 64;
  const auto model = [&](LatentOrder order) { return open_model(name, in_order(order, Arithmetic::kFast)); };
  const auto by_cost = model(LatentOrder::kByCost), absorb = model(LatentOrder::kAbsorb),
             expand = model(LatentOrder::kExpand);
  bool took_absorb = false, took_expand = false;
  for (const std::size_t n : {1, 2, 5, 20, 60, 100}) {
    const std::vector<std::int32_t> tokens = long_case(name, n);
    const auto count = static_cast<std::int64_t>(n);
    const bool expands = cheaper_order(heads, count, count, true) == LatentOrder::kExpand;
    EXPECT_TRUE(all_logits(*by_cost, tokens, {n}) == all_logits(expands ? *expand : *absorb, tokens, {n}))
        << n;
    (expands ? took_expand : took_absorb) = true;
  }
  EXPECT_TRUE(took_absorb || took_expand);
  // Two runs of one forward choose for themselves.
  const std::vector<std::int32_t> tokens = long_case(name, 100);
  SequenceCache together_long(by_cost->pages()), together_short(by_cost->pages());
  const std::int32_t last_long = 99, last_short = 1;
  std::vector<seekline::Run> runs(2);
  runs[0].cache = &together_long;
  runs[0].tokens = tokens;
  runs[0].wanted_logits = {&last_long, 1};
  runs[1].cache = &together_short;
  runs[1].tokens = std::span(tokens).first(2);
  runs[1].wanted_logits = {&last_short, 1};
  const auto vocab = static_cast<std::size_t>(by_cost->vocab_size());
  std::vector<float> logits(2 * vocab);
  by_cost->executor().forward(runs, {logits.data(), 2, by_cost->vocab_size()});
  const std::vector<float> long_alone = all_logits(*by_cost, tokens, {100});
  const std::vector<float> short_alone = all_logits(*by_cost, {tokens[0], tokens[1]}, {2});
  EXPECT_TRUE(std::equal(logits.begin(), logits.begin() + static_cast<std::ptrdiff_t>(vocab),
                         long_alone.end() - static_cast<std::ptrdiff_t>(vocab)));
  EXPECT_TRUE(std::equal(logits.begin() + static_cast<std::ptrdiff_t>(vocab), logits.end(),
                         short_alone.end() - static_cast<std::ptrdiff_t>(vocab)));
}

}  // namespace
}  // namespace seekline::golden
