// Every id of the reference: golden/data/text/tokenizer (see PROVENANCE.md there).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "golden_tokenizers.h"

namespace seekline {
namespace {

using golden::read_json_lines;
using nlohmann::json;

std::string hex(const std::string& bytes) {
  std::string result;
  for (const char c : bytes) result += fmt::format("{:02x}", static_cast<std::uint8_t>(c));
  return result;
}

/// Encodes every text of `file`, with `ids_key` where a row has it, and decodes the ids back to the text.
void expect_ids(const Tokenizer& tokenizer, const std::string& file, const char* ids_key, std::size_t rows) {
  const auto cases = read_json_lines("tokenizer/" + file);
  ASSERT_EQ(cases.size(), rows);
  for (const json& c : cases) {
    const std::string text = c["text"];
    const bool allow = c.value("allow_special", false);
    const std::vector<TokenId> expected = c.contains(ids_key) ? c[ids_key] : c["ids"];
    const std::vector<TokenId> ids = tokenizer.encode(text, allow);
    EXPECT_EQ(ids, expected) << file << " case " << c["id"] << ", " << c["note"];
    if (c.value("lossy", false)) continue;
    EXPECT_EQ(tokenizer.decode(ids), text) << file << " case " << c["id"];
  }
}

TEST(TokenizerGolden, V4GivesTheReferencesIds) {
  expect_ids(golden::v4_tokenizer(), "deepseek.jsonl", "ids", 1249);
}

TEST(TokenizerGolden, V41GivesTheReferencesIds) {
  expect_ids(golden::v41_tokenizer(), "deepseek.jsonl", "ids_v41", 1249);
}

TEST(TokenizerGolden, LongTextsGiveTheReferencesIds) {
  expect_ids(golden::v4_tokenizer(), "deepseek-long.jsonl", "ids", 30);
  expect_ids(golden::v41_tokenizer(), "deepseek-long.jsonl", "ids_v41", 30);
}

TEST(TokenizerGolden, TheTinyTokenizerGivesTheReferencesIds) {
  expect_ids(golden::tiny_tokenizer(), "tiny.jsonl", "ids", 630);
}

TEST(TokenizerGolden, SmolLM2GivesTheReferencesIds) {
  expect_ids(golden::smollm2_tokenizer(), "smollm2.jsonl", "ids", 391);
}

void expect_decoded(const Tokenizer& tokenizer, const std::string& file) {
  const auto cases = read_json_lines("tokenizer/" + file);
  ASSERT_EQ(cases.size(), 493U);
  for (const json& c : cases) {
    const std::vector<TokenId> ids = c["ids"];
    const std::string text = c["text"];
    EXPECT_EQ(hex(tokenizer.decode(ids)), c["bytes_hex"].get<std::string>()) << c["note"];
    EXPECT_EQ(tokenizer.decode_text(ids), text) << c["note"];
    EXPECT_EQ(tokenizer.decode_text(ids, true), c.value("text_skip_special", text)) << c["note"];
  }
}

TEST(TokenizerGolden, DecodesAsTheReferenceDoes) {
  expect_decoded(golden::v4_tokenizer(), "deepseek-decode.jsonl");
  expect_decoded(golden::tiny_tokenizer(), "tiny-decode.jsonl");
}

void expect_streamed(const Tokenizer& tokenizer, const std::string& file) {
  const auto cases = read_json_lines("tokenizer/" + file);
  ASSERT_EQ(cases.size(), 297U);
  for (const json& c : cases) {
    StreamDecoder decoder(tokenizer);
    std::vector<std::string> pieces;
    for (const TokenId id : c["ids"]) pieces.push_back(decoder.push(id));
    EXPECT_EQ(pieces, c["pieces"].get<std::vector<std::string>>()) << c["note"];
    EXPECT_EQ(decoder.flush(), c["flush"].get<std::string>()) << c["note"];
    EXPECT_EQ(decoder.flush(), "") << "a flushed decoder is as new";
  }
}

TEST(TokenizerGolden, StreamsAsTheReferenceDoes) {
  expect_streamed(golden::v4_tokenizer(), "deepseek-stream.jsonl");
  expect_streamed(golden::tiny_tokenizer(), "tiny-stream.jsonl");
}

/// xorshift64*, as bulk.json describes it.
class BulkGenerator {
 public:
  explicit BulkGenerator(std::uint64_t k) : state_(2 * k + 1) {}
  std::size_t next() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 2685821657736338717U) >> 32;
  }

 private:
  std::uint64_t state_;
};

std::string bulk_string(std::uint64_t k, const std::vector<std::string>& alphabet) {
  BulkGenerator generator(k);
  std::string text;
  for (std::size_t n = 1 + generator.next() % 40; n > 0; --n)
    text += alphabet[generator.next() % alphabet.size()];
  return text;
}

void expect_bulk(const Tokenizer& tokenizer, const json& bulk, const char* name) {
  const std::vector<std::string> alphabet = bulk["alphabet"];
  std::uint64_t hash = 0xCBF29CE484222325U;
  const auto add = [&hash](std::uint32_t word) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ (word >> shift & 0xFF)) * 0x100000001B3U;
  };
  std::vector<std::string> hashes;
  std::size_t total = 0;
  for (std::uint64_t k = 0; k < 10'000; ++k) {
    const std::vector<TokenId> ids = tokenizer.encode(bulk_string(k, alphabet), false);
    for (const TokenId id : ids) add(static_cast<std::uint32_t>(id));
    add(0xFFFFFFFF);
    total += ids.size();
    if (k % 100 == 99) hashes.push_back(fmt::format("{:016x}", hash));
  }
  EXPECT_EQ(total, bulk[name]["total_ids"].get<std::size_t>());
  EXPECT_EQ(hashes, bulk[name]["hashes"].get<std::vector<std::string>>());
}

TEST(TokenizerGolden, TenThousandGeneratedStringsHashAsTheReferencesDo) {
  const json bulk = json::parse(golden::read_file(golden::text_data("tokenizer/bulk.json")));
  for (const json& example : bulk["examples"]) {
    const std::string text = bulk_string(example["k"], bulk["alphabet"]);
    ASSERT_EQ(text, example["text"].get<std::string>());
    EXPECT_EQ(golden::v4_tokenizer().encode(text, false), example["ids"].get<std::vector<TokenId>>());
  }
  expect_bulk(golden::v4_tokenizer(), bulk, "deepseek");
  expect_bulk(golden::v41_tokenizer(), bulk, "deepseek");
  expect_bulk(golden::tiny_tokenizer(), bulk, "tiny");
}

}  // namespace
}  // namespace seekline
