// Primes, draws, multipliers and table rows of Engram against the released values (golden/data/engram).
#include "model/engram_hash.h"

#include <gtest/gtest.h>

#include <fstream>

#include <nlohmann/json.hpp>

#include "seekline/error.h"
#include "text/compressed_vocabulary.h"
#include "text/tokenizer.h"

namespace seekline {
namespace {

using nlohmann::json;

json golden(const std::string& name) {
  std::ifstream in(std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/engram/" + name);
  return json::parse(in);
}

TEST(EngramHash, DrawsAreNumPysForEveryLayer) {
  const json rows = golden("rng.json")["layers"];
  ASSERT_EQ(rows.size(), 41U);
  for (const json& row : rows) {
    EXPECT_EQ(numpy_integers(row["seed"], row["bound"], 4), row["draws"].get<std::vector<std::int64_t>>());
  }
}

TEST(EngramHash, DrawsAreNumPysForEveryBound) {
  int compared = 0;
  const json rows = golden("rng.json")["bounds"];
  for (const json& row : rows) {
    const std::string seed = row["seed"];
    if (seed.size() > 19) continue;  // seeds beyond 64 bits: no layer number has one
    const std::int64_t bound = std::stoll(row["bound"].get<std::string>());
    EXPECT_EQ(numpy_integers(std::stoull(seed), bound, 8), row["draws"].get<std::vector<std::int64_t>>())
        << "seed " << seed << ", bound " << bound;
    ++compared;
  }
  EXPECT_EQ(compared, 264);
}

/// Classes of position t and the max_ngram - 1 before it; blocked from the first image position back.
std::vector<std::int32_t> look_back(const std::vector<std::int32_t>& classes,
                                    const std::vector<bool>& is_text, std::size_t t, int max_ngram,
                                    std::int32_t pad_class) {
  std::vector<std::int32_t> result;
  bool blocked = false;
  for (std::size_t i = 0; i < static_cast<std::size_t>(max_ngram); ++i) {
    blocked = blocked || i > t || !is_text[t - i];
    result.push_back(blocked ? pad_class : classes[t - i]);
  }
  return result;
}

void expect_rows(const EngramLayout& layout, const json& c, const std::vector<std::int32_t>& classes,
                 std::int32_t pad_class) {
  const std::vector<bool> is_text = c["text_mask"];
  for (std::size_t t = 0; t < classes.size(); ++t) {
    const auto history = look_back(classes, is_text, t, layout.max_ngram, pad_class);
    for (std::size_t k = 0; k < layout.layers.size(); ++k) {
      std::vector<std::int64_t> rows(static_cast<std::size_t>(layout.columns()));
      engram_rows(layout, layout.layers[k], history.data(), rows.data());
      EXPECT_EQ(rows, c["buckets"][t][k].get<std::vector<std::int64_t>>())
          << "position " << t << ", layer " << k;
    }
  }
}

template <typename T>
std::vector<T> flat(const json& lists) {
  std::vector<T> result;
  for (const json& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

EngramLayout released_layout() {
  const json config = golden("layout.json")["config"];
  return engram_layout(config["engram_layer_ids"].get<std::vector<std::int64_t>>(),
                       config["engram_max_ngram_size"], config["engram_n_heads"], config["engram_vocab_size"],
                       config["engram_compressed_vocab_size"]);
}

TEST(EngramHash, TheReleasedLayoutHasTheReleasedPrimesAndMultipliers) {
  const json expected = golden("layout.json");
  const EngramLayout layout = released_layout();
  ASSERT_EQ(layout.layers.size(), 2U);
  for (std::size_t k = 0; k < 2; ++k) {
    EXPECT_EQ(layout.layers[k].primes, flat<std::int64_t>(expected["primes"][k]));
    EXPECT_EQ(layout.layers[k].offsets, expected["offsets"][k].get<std::vector<std::int64_t>>());
    EXPECT_EQ(layout.layers[k].multipliers, expected["multipliers"][k].get<std::vector<std::int64_t>>());
    EXPECT_EQ(layout.layers[k].rows, expected["config"]["engram_num_embeddings"][k].get<std::int64_t>());
  }
}

TEST(EngramHash, ReleasedBucketsAreTheReferences) {
  const EngramLayout layout = released_layout();
  const json cases = golden("buckets-v41.json");
  ASSERT_EQ(cases.size(), 25U);
  for (const json& c : cases) {
    SCOPED_TRACE(c["note"].get<std::string>());
    expect_rows(layout, c, c["classes"], golden("layout.json")["pad_class"]);
  }
}

TEST(EngramHash, SmallLayoutsAndTheirBucketsAreTheReferences) {
  const Tokenizer tokenizer =
      Tokenizer::load(std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/text/tiny/tokenizer.json");
  const std::vector<std::int32_t> class_of = compress_vocabulary(tokenizer).class_of;
  const json layouts = golden("tiny-layouts.json");
  ASSERT_EQ(layouts.size(), 5U);
  for (const json& expected : layouts) {
    const EngramLayout layout =
        engram_layout(expected["layer_ids"].get<std::vector<std::int64_t>>(), expected["max_ngram"],
                      expected["n_heads"], expected["vocab_size"], expected["compressed_vocab_size"]);
    for (std::size_t k = 0; k < layout.layers.size(); ++k) {
      EXPECT_EQ(layout.layers[k].primes, flat<std::int64_t>(expected["primes"][k]));
      EXPECT_EQ(layout.layers[k].offsets, expected["offsets"][k].get<std::vector<std::int64_t>>());
      EXPECT_EQ(layout.layers[k].multipliers, expected["multipliers"][k].get<std::vector<std::int64_t>>());
      EXPECT_EQ(layout.layers[k].rows, expected["rows"][k].get<std::int64_t>());
    }
    for (const json& c : expected["cases"]) {
      std::vector<std::int32_t> classes;
      for (const std::size_t token : c["tokens"]) classes.push_back(class_of[token]);
      expect_rows(layout, c, classes, expected["pad_class"]);
    }
  }
}

TEST(EngramHash, AbsurdConfigValuesAreRefusedByName) {
  const std::vector<std::int64_t> layers{1};
  EXPECT_THROW(engram_layout(layers, 1, 8, 16'000'000, 99092), Error);
  EXPECT_THROW(engram_layout(layers, 4, 0, 16'000'000, 99092), Error);
  EXPECT_THROW(engram_layout(layers, 4, 8, 0, 99092), Error);
  EXPECT_THROW(engram_layout(layers, 4, 8, INT64_MAX, 99092), Error);
  EXPECT_THROW(engram_layout(layers, 4, 8, 16'000'000, 0), Error);
  EXPECT_THROW(engram_layout(std::vector<std::int64_t>{-1}, 4, 8, 16'000'000, 99092), Error);
}

}  // namespace
}  // namespace seekline
