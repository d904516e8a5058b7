// A session in a file: restored, it goes on like the one that was saved; anything wrong is one sentence.
#include <fstream>
#include <random>

#include "core/temp_folder.h"
#include "engine/golden_model.h"
#include "engine/timeline.h"
#include "engine/verify_reuse.h"
#include "persist/model_identity.h"
#include "seekline/session_file.h"

namespace seekline::golden {
namespace {

namespace fs = std::filesystem;

std::vector<std::int32_t> random_tokens(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> tokens(count);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(10 + random() % 200);
  return tokens;
}

class SessionFile : public ::testing::TestWithParam<std::tuple<std::string, DecoderMode>> {
 protected:
  void SetUp() override {
    ModelOptions options;
    options.threads = 1;
    options.decoder = std::get<1>(GetParam());
    model = Model::open(model_folder(std::get<0>(GetParam())), options);
    identity = identify_model(*model);
  }

  std::shared_ptr<Model> model;
  ModelIdentity identity;
  const TempFolder folder;
  const fs::path path = folder / "session";
};

TEST_P(SessionFile, ARestoredSessionGoesOnLikeTheSavedOneAtEveryEdge) {
  const std::vector<std::int32_t> tokens = random_tokens(830, 1);
  for (const std::size_t length :
       {1, 2, 3, 4, 5, 127, 128, 129, 130, 255, 256, 257, 383, 384, 385, 511, 512, 513}) {
    Session saved(model);
    saved.prompt(std::span(tokens).first(length));
    SessionFiles(identity).save(saved, path, "a note");
    Session restored(model);
    EXPECT_EQ(SessionFiles(identity).restore(restored, path), "a note");
    EXPECT_EQ(restored.length(), static_cast<std::int64_t>(length));
    // A prompt behind it, then an answer of 300 tokens.
    const std::span<const std::int32_t> longer = std::span(tokens).first(length + 10);
    saved.prompt(longer);
    restored.prompt(longer);
    EXPECT_EQ(restored.reuse().reused_tokens, static_cast<std::int64_t>(length));
    EXPECT_EQ(restored.reuse().from, "file");
    bool same = std::ranges::equal(saved.logits(), restored.logits());
    for (std::size_t i = 0; same && i < 300; ++i) {
      saved.extend(tokens[length + 10 + i]);
      restored.extend(tokens[length + 10 + i]);
      same = std::ranges::equal(saved.logits(), restored.logits());
    }
    EXPECT_TRUE(same) << "saved at " << length;
    EXPECT_EQ(first_difference(saved.cache(), restored.cache(), true), std::nullopt) << "saved at " << length;
  }
}

TEST_P(SessionFile, EveryFlippedOrMissingByteIsRefusedInASentence) {
  Session session(model);
  session.prompt(random_tokens(40, 2));
  SessionFiles(identity).save(session, path);
  std::ifstream in(path, std::ios::binary);
  const std::string good((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    std::string bad = good;
    if (trial % 4 == 0) {
      bad.resize(random() % good.size());
    } else {
      bad[trial < 80 ? static_cast<std::size_t>(trial) : random() % good.size()] ^=
          static_cast<char>(1 << (random() % 8));
    }
    std::ofstream(path, std::ios::binary) << bad;
    Session restored(model);
    try {
      SessionFiles(identity).restore(restored, path);
      FAIL() << "trial " << trial << " was taken";
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos);
    }
    EXPECT_EQ(restored.length(), 0);
  }
}

TEST_P(SessionFile, AnotherModelsFileIsRefused) {
  Session session(model);
  session.prompt(random_tokens(20, 4));
  SessionFiles(identity).save(session, path);
  ModelIdentity other = identity;
  other.fingerprint.bytes[0] ^= 1;
  Session restored(model);
  try {
    SessionFiles(other).restore(restored, path);
    FAIL() << "another model's session was taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SessionFile,
                         ::testing::Values(std::tuple{"v41-tiny", DecoderMode::kCed},
                                           std::tuple{"v41-tiny-long", DecoderMode::kExact},
                                           std::tuple{"v4-tiny", DecoderMode::kCed},
                                           std::tuple{"llama-gqa-tiny", DecoderMode::kCed}),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace seekline::golden
