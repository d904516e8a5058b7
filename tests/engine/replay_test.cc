// A prefix is computed once: every way back to a stored prefix gives the bits of a cold run.
#include <set>

#include "engine/golden_model.h"
#include "engine/small_yoco.h"
#include "engine/timeline.h"
#include "engine/verify_reuse.h"
#include "seekline/session.h"

namespace seekline::golden {
namespace {

std::string folder_of(const std::string& name) {
  return name == "yoco" ? small_yoco().folder() : model_folder(name);
}

// `count` tokens: those of the model's longest case, as often as it takes.
std::vector<std::int32_t> tokens_for(const std::string& name, std::size_t count) {
  std::vector<std::int32_t> longest;
  if (name == "yoco") {
    for (std::int32_t i = 0; i < 128; ++i) longest.push_back(i * 37 % 128);
  } else {
    for (const GoldenCase& c : golden_cases(model_folder(name)))
      if (c.tokens.size() > longest.size()) longest = c.tokens;
  }
  std::vector<std::int32_t> tokens(count);
  for (std::size_t i = 0; i < count; ++i) tokens[i] = longest[i % longest.size()];
  return tokens;
}

std::shared_ptr<Model> open_with(const std::string& name, DecoderMode decoder,
                                 std::int64_t batch_tokens = 64) {
  ModelOptions options;
  options.threads = 1;
  options.batch_tokens = batch_tokens;
  options.decoder = decoder;
  return Model::open(folder_of(name), options);
}

std::vector<float> copy(std::span<const float> logits) { return {logits.begin(), logits.end()}; }

// Prompt, then a few given tokens as if they had been chosen: logits of all of them.
std::vector<float> answer(Session& session, std::span<const std::int32_t> prompt,
                          std::span<const std::int32_t> chosen) {
  session.prompt(prompt);
  std::vector<float> all = copy(session.logits());
  for (const std::int32_t token : chosen) {
    session.extend(token);
    all.insert(all.end(), session.logits().begin(), session.logits().end());
  }
  return all;
}

// Lengths at which something may go wrong: the start, windows, groups, pages, the end.
std::set<std::int64_t> edge_lengths(const CachePlan& plan, std::int64_t tokens) {
  std::set<std::int64_t> lengths{1, 2, 3, 4, 5, tokens - 1, tokens};
  const std::int64_t w = plan.window;
  for (const std::int64_t at : {w, 2 * w, tokens - w, std::int64_t{64}, kPageTokens})
    for (std::int64_t d = -1; d <= 1; ++d)
      if (at > 0) lengths.insert(at + d);
  for (const Store& store : plan.stores)
    for (const std::int64_t groups : {2, 8})
      for (std::int64_t d = -1; d <= 1; ++d) lengths.insert(groups * store.tokens_per_row + d);
  std::erase_if(lengths, [&](std::int64_t h) { return h < 1 || h > tokens; });
  return lengths;
}

struct Way {
  const char* name;
  DecoderMode decoder;
  ReplayWay way;
};

class Replay : public ::testing::TestWithParam<std::tuple<std::string, Way>> {
 protected:
  const std::string name = std::get<0>(GetParam());
  const std::shared_ptr<Model> model = open_with(name, std::get<1>(GetParam()).decoder);
  SessionOptions options() const {
    SessionOptions o;
    o.way = std::get<1>(GetParam()).way;
    return o;
  }
};

TEST_P(Replay, AHitOfAnyLengthAnswersWithTheBitsOfAColdRun) {
  const std::vector<std::int32_t> all = tokens_for(name, 290);
  const std::span<const std::int32_t> tokens = std::span(all).first(280), chosen = std::span(all).last(10);
  Session cold(model, options());
  const std::vector<float> expected = answer(cold, tokens, chosen);
  for (const std::int64_t hit : edge_lengths(model->plan(), std::ssize(tokens))) {
    // A session that held `hit` of these tokens and then went on differently.
    Session warm(model, options());
    std::vector<std::int32_t> other(tokens.begin(), tokens.begin() + hit);
    const std::int32_t unlike = hit < std::ssize(tokens) ? tokens[static_cast<std::size_t>(hit)] : chosen[0];
    other.insert(other.end(), 20, (unlike + 1) % static_cast<std::int32_t>(model->vocab_size()));
    warm.prompt(other);
    EXPECT_TRUE(answer(warm, tokens, chosen) == expected)
        << "hit " << hit << ", windows " << warm.reuse().windows;
    EXPECT_EQ(warm.reuse().reused_tokens, std::min<std::int64_t>(hit, std::ssize(tokens) - 1)) << hit;
    EXPECT_EQ(first_difference(warm.cache(), cold.cache(), true), std::nullopt) << "hit " << hit;
  }
}

TEST_P(Replay, ALiveSessionThatGoesOnAnswersLikeAColdOne) {
  const std::vector<std::int32_t> all = tokens_for(name, 280);
  Session live(model, options());
  std::size_t at = 0;
  for (const std::size_t turn : {5, 1, 40, 2, 64, 3, 100}) {
    live.append(std::span(all).subspan(at, turn));
    at += turn;
    Session cold(model);
    cold.prompt(std::span(all).first(at));
    EXPECT_TRUE(copy(live.logits()) == copy(cold.logits())) << "turn of " << turn << " ending at " << at;
    for (int i = 0; i < 4; ++i) live.extend(all[at++]);
  }
}

TEST_P(Replay, ForksAnswerLikeTheirOriginAndShareItsPages) {
  const std::vector<std::int32_t> all = tokens_for(name, 200);
  const std::span<const std::int32_t> prompt = std::span(all).first(all.size() - 8);
  Session origin(model, options());
  origin.prompt(prompt);
  const std::int64_t before = model->pages().used_bytes();
  Session left = origin.fork(), right = origin.fork();
  EXPECT_EQ(model->pages().used_bytes(), before) << "a fork copies no global rows";
  for (const std::int32_t token : std::span(all).last(8)) {
    left.extend(token);
    right.extend((token + 1) % static_cast<std::int32_t>(model->vocab_size()));
    origin.extend(token);
  }
  EXPECT_TRUE(copy(left.logits()) == copy(origin.logits()));
  EXPECT_FALSE(copy(right.logits()) == copy(origin.logits()));
  EXPECT_EQ(first_difference(left.cache(), origin.cache(), true), std::nullopt);
}

// Windows of a session that was cut come back by the same ways.
TEST_P(Replay, ATruncatedSessionGoesOnLikeAColdOne) {
  const std::vector<std::int32_t> all = tokens_for(name, 280);
  for (const std::size_t length : {279, 257, 256, 255, 129, 128, 127, 40, 3, 1}) {
    Session session(model, options());
    session.prompt(all);
    session.truncate(static_cast<std::int64_t>(length));
    EXPECT_EQ(session.length(), static_cast<std::int64_t>(length));
    session.append(std::vector<std::int32_t>{11, 12});
    std::vector<std::int32_t> tokens(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(length));
    tokens.insert(tokens.end(), {11, 12});
    Session cold(model);
    cold.prompt(tokens);
    EXPECT_TRUE(copy(session.logits()) == copy(cold.logits())) << "cut to " << length;
    EXPECT_EQ(session.reuse().reused_tokens, static_cast<std::int64_t>(length));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Replay,
    ::testing::Combine(::testing::Values("v41-tiny", "v41-tiny-long", "v41-tiny-mtp", "v4-tiny", "v32-tiny",
                                         "v32-tiny-fp8", "v3-tiny", "v2-tiny", "v2lite-tiny", "yoco",
                                         "llama-gqa-tiny", "llama-mha-tiny", "llama-mqa-tiny"),
                       ::testing::Values(Way{"CedAuto", DecoderMode::kCed, ReplayWay::kAuto},
                                         Way{"CedExactReplay", DecoderMode::kCed, ReplayWay::kExact},
                                         Way{"ExactAuto", DecoderMode::kExact, ReplayWay::kAuto},
                                         Way{"ExactExactReplay", DecoderMode::kExact, ReplayWay::kExact})),
    [](const auto& info) {
      std::string test = std::get<0>(info.param) + "_" + std::get<1>(info.param).name;
      std::ranges::replace(test, '-', '_');
      return test;
    });

TEST(Ced, RunsTheDecoderOnTheLastWindowOnlyAndDiffersFromExact) {
  const std::shared_ptr<Model> ced = open_with("v41-tiny", DecoderMode::kCed);
  const std::shared_ptr<Model> exact = open_with("v41-tiny", DecoderMode::kExact);
  const std::vector<std::int32_t> tokens = tokens_for("v41-tiny", 100);
  Session a(ced), b(exact);
  a.prompt(tokens);
  b.prompt(tokens);
  const CachePlan& plan = ced->plan();
  const int encoder = plan.first_decoder_layer();
  const int decoder = static_cast<int>(plan.layers.size()) - encoder;
  ASSERT_GT(decoder, 0);
  EXPECT_EQ(a.reuse().encoder_evaluations, 100 * encoder);
  EXPECT_EQ(a.reuse().decoder_evaluations, plan.window * decoder);
  EXPECT_EQ(b.reuse().decoder_evaluations, 100 * decoder);
  EXPECT_FALSE(copy(a.logits()) == copy(b.logits()));
  // Global rows are the encoder's work: the same in both modes.
  EXPECT_EQ(first_difference(a.cache(), b.cache(), false), std::nullopt);
}

TEST(Ced, EqualsExactWhereThePromptFitsTheWindow) {
  const std::shared_ptr<Model> ced = open_with("v41-tiny", DecoderMode::kCed);
  const std::shared_ptr<Model> exact = open_with("v41-tiny", DecoderMode::kExact);
  const std::vector<std::int32_t> tokens =
      tokens_for("v41-tiny", static_cast<std::size_t>(ced->plan().window));
  Session a(ced), b(exact);
  a.prompt(tokens);
  b.prompt(tokens);
  EXPECT_TRUE(copy(a.logits()) == copy(b.logits()));
}

TEST(VerifyReuse, PassesWhatIsRightAndNamesAFlippedBit) {
  const std::shared_ptr<Model> model = open_with("v41-tiny", DecoderMode::kCed);
  const std::vector<std::int32_t> tokens = tokens_for("v41-tiny", 100);
  SessionOptions options;
  options.verify_reuse = true;
  Session session(model, options);
  session.prompt(std::span(tokens).first(80));
  session.prompt(tokens);
  EXPECT_EQ(session.reuse().reused_tokens, 80);
  // One bit of a stored row below the reuse.
  StoreId main = -1;
  for (const Store& store : model->plan().stores)
    if (store.kind == StoreKind::kMain && main < 0) main = store.id;
  session.cache().mutable_row(main, 3).data[0] ^= 1;
  session.cache().mutable_row(main, 7).data[0] ^= 1;  // a later one, which is not the one to name
  try {
    session.append(std::vector<std::int32_t>{5, 6});
    FAIL() << "a flipped bit went unnoticed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInternal);
    const std::string m =
        std::to_string(3 * model->plan().stores[static_cast<std::size_t>(main)].tokens_per_row);
    EXPECT_NE(std::string(error.what()).find("position " + m), std::string::npos) << error.what();
    const std::string layer =
        std::to_string(model->plan().stores[static_cast<std::size_t>(main)].owner_layer);
    EXPECT_NE(std::string(error.what()).find("layer " + layer + " "), std::string::npos) << error.what();
  }
}

TEST(Session, RefusesPromptsThatCannotBeMeant) {
  const std::shared_ptr<Model> model = open_with("llama-gqa-tiny", DecoderMode::kCed);
  Session session(model);
  EXPECT_THROW(session.prompt({}), Error);
  EXPECT_THROW(session.prompt(std::vector<std::int32_t>{-1}), Error);
  EXPECT_THROW(session.extend(1), Error);
  session.prompt(std::vector<std::int32_t>{1, 2, 3});
  EXPECT_THROW(session.truncate(4), Error);
  session.truncate(2);
  EXPECT_THROW(session.extend(1), Error);
  EXPECT_EQ(session.length(), 2);
}

}  // namespace
}  // namespace seekline::golden
