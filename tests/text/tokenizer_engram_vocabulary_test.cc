// Engram's compressed vocabulary against the released one (golden/data/engram).
#include <gtest/gtest.h>

#include "golden/safetensors_lite.h"
#include "golden_tokenizers.h"
#include "text/compressed_vocabulary.h"

namespace seekline {
namespace {

std::string engram_data(const std::string& name) {
  return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/engram/" + name;
}

std::vector<std::int32_t> golden_map(const std::string& name) {
  return golden::SafetensorsLite(engram_data(name)).at("map").as<std::int32_t>();
}

TEST(CompressedVocabulary, V41HasTheReleasedClasses) {
  const CompressedVocabulary compressed = compress_vocabulary(golden::v41_tokenizer());
  EXPECT_EQ(compressed.classes, 99092);
  EXPECT_EQ(compressed.class_of, golden_map("compressed-v41.safetensors"));
}

TEST(CompressedVocabulary, V4sFileGivesTheSameMap) {
  EXPECT_EQ(compress_vocabulary(golden::v4_tokenizer()).class_of, golden_map("compressed-v41.safetensors"));
}

TEST(CompressedVocabulary, TheTinyTokenizerHas740Classes) {
  const CompressedVocabulary compressed = compress_vocabulary(golden::tiny_tokenizer());
  EXPECT_EQ(compressed.classes, 740);
  EXPECT_EQ(compressed.class_of, golden_map("compressed-tiny.safetensors"));
}

TEST(CompressedVocabulary, SampledIdsHaveTheReferencesTextAndClass) {
  const CompressedVocabulary compressed = compress_vocabulary(golden::v41_tokenizer());
  std::istringstream lines(golden::read_file(engram_data("normalise-v41.jsonl")));
  int rows = 0;
  for (std::string line; std::getline(lines, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    const TokenId id = row["id"];
    EXPECT_EQ(golden::v41_tokenizer().decode_text({&id, 1}), row["text"].get<std::string>());
    EXPECT_EQ(compressed.class_of[static_cast<std::size_t>(id)], row["cls"].get<std::int32_t>())
        << "id " << id;
  }
  EXPECT_EQ(rows, 1441);
}

}  // namespace
}  // namespace seekline
