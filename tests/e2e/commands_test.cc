// The program's commands on small models: what they print, write and return.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include <nlohmann/json.hpp>

#include "e2e/program.h"
#include "golden/safetensors_lite.h"

namespace seekline::e2e {
namespace {

using golden::SafetensorsLite;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = golden_data("models/v41-tiny");
const std::string kTinyCases = golden_data("models/v41-tiny") / "cases.json";

TEST(Help, NamesEveryCommandAndExitCode) {
  const Outcome help = run_program({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  for (const char* command : {"run", "logits", "tokenize", "inspect", "plan", "synth", "bench"}) {
    EXPECT_THAT(help.out, HasSubstr(command));
    const Outcome own = run_program({command, "--help"});
    EXPECT_EQ(own.code, 0) << command;
    EXPECT_THAT(own.out, HasSubstr("OPTIONS")) << command;
  }
  for (const char* code : {"0 done", "2 a flag", "3 not found", "4 a damaged file", "5 not supported",
                           "6 over a limit", "7 the system", "130 interrupted"})
    EXPECT_THAT(help.out, HasSubstr(code));
}

TEST(Plan, PrintsThePublishedNumbersOfV41) {
  const Outcome text = run_program({"plan", "--preset", "v41-flash"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* number : {"890.00 bytes", "2,703,360 bytes", "35,045,376 bytes (35.05 MB)"})
    EXPECT_THAT(text.out, HasSubstr(number));
  const auto json = nlohmann::json::parse(run_program({"plan", "--preset", "v41-flash", "--json"}).out);
  EXPECT_EQ(json["stored_bytes_per_token"], 890);
  EXPECT_EQ(json["window_bytes"], 2703360);
  EXPECT_EQ(json["reads"]["total"], 35045376);
}

TEST(Inspect, ShowsWhatIsUnused) {
  const Outcome shown = run_program({"inspect", "--model", golden_data("models/v41-tiny-mtp")});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("deepseek_v41"));
  EXPECT_THAT(shown.out, HasSubstr("mtp."));
  EXPECT_THAT(shown.out, HasSubstr("unused"));
  EXPECT_THAT(shown.out, HasSubstr("stored per token"));
}

TEST(Tokenize, GoesThereAndBack) {
  const std::string text = "Hello, world: \xC3\xA4 \xE4\xBD\xA0";
  const Outcome ids = run_program({"tokenize", "--model", kTiny, text});
  ASSERT_EQ(ids.code, 0) << ids.err;
  std::string list = ids.out;
  std::replace(list.begin(), list.end(), '\n', ' ');
  std::vector<std::string> back{"tokenize", "--model", kTiny, "--decode"};
  std::istringstream words(list);
  for (std::string word; words >> word;) back.push_back(word);
  EXPECT_EQ(run_program(back).out, text + "\n");
  EXPECT_EQ(run_program({"tokenize", "--model", kTiny, "-"}, text).out, ids.out);
}

// Names of a file, and that all of its tensors have the same bytes in another.
void expect_same(const fs::path& a, const fs::path& b) {
  const SafetensorsLite first(a), second(b);
  ASSERT_EQ(first.tensors().size(), second.tensors().size());
  for (const auto& [name, tensor] : first.tensors()) EXPECT_EQ(tensor.bytes, second.at(name).bytes) << name;
}

TEST(Logits, AreTheSameInBatchesChunksAndThreads) {
  const TempFolder folder;
  const auto write = [&](const std::string& name, std::vector<std::string> flags) {
    std::vector<std::string> all{"logits", "--model", kTiny, "--cases", kTinyCases, "--out", folder / name};
    all.insert(all.end(), flags.begin(), flags.end());
    const Outcome done = run_program(all);
    EXPECT_EQ(done.code, 0) << done.err;
    return folder / name;
  };
  const fs::path alone = write("alone", {"--threads", "1"});
  expect_same(alone, write("batch", {"--batch", "--threads", "2"}));
  expect_same(alone, write("chunks", {"--chunk", "7", "--threads", "3"}));
  const SafetensorsLite logits(alone);
  const auto cases = nlohmann::json::parse(read_bytes(kTinyCases))["cases"];
  EXPECT_EQ(logits.tensors().size(), cases.size());
  for (const auto& entry : cases) {
    const auto& tensor = logits.at(entry["id"].get<std::string>() + "/logits");
    EXPECT_EQ(tensor.dtype, "F32");
    EXPECT_EQ(tensor.rows(), static_cast<std::int64_t>(entry["tokens"].size()));
  }
}

TEST(Logits, TapsHaveTheNamesAndShapesOfTheReference) {
  const TempFolder folder;
  const Outcome done = run_program({"logits", "--model", kTiny, "--cases", kTinyCases, "--out",
                                    folder / "taps", "--taps", "--arithmetic", "f32"});
  ASSERT_EQ(done.code, 0) << done.err;
  const SafetensorsLite ours(folder / "taps"),
      golden(golden_data("models/v41-tiny") / "expected.safetensors");
  int compared = 0;
  for (const auto& [name, tensor] : golden.tensors()) {
    const std::size_t mode = name.find("/exact/");
    if (mode == std::string::npos || name.find("draft") != std::string::npos) continue;
    const std::string own = name.substr(0, mode) + name.substr(mode + 6);
    ASSERT_TRUE(ours.has(own)) << own;
    ++compared;
    const auto& ids = ours.at(own);
    const std::vector<std::int64_t> row(tensor.shape.begin() + 1, tensor.shape.end());
    EXPECT_EQ(std::vector<std::int64_t>(ids.shape.begin() + 1, ids.shape.end()), row) << own;
  }
  EXPECT_GT(compared, 20);
}

// A prompt of plain text through the tiny model: nonsense comes back, but always the same.
std::vector<std::string> run_tiny(std::vector<std::string> more) {
  std::vector<std::string> all{"run", "--model", kTiny, "--raw", "--max-tokens", "8"};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(Run, TakesThePromptFromEverySource) {
  const TempFolder folder;
  const std::string prompt = "Once upon a time";
  write_bytes(folder / "prompt.txt", prompt);
  const Outcome argument = run_program(run_tiny({prompt}));
  EXPECT_EQ(argument.code, 0) << argument.err;
  EXPECT_FALSE(argument.out.empty());
  EXPECT_EQ(run_program(run_tiny({"-"}), prompt).out, argument.out);
  EXPECT_EQ(run_program(run_tiny({}), prompt).out, argument.out);
  EXPECT_EQ(run_program(run_tiny({"--file", folder / "prompt.txt"})).out, argument.out);
}

TEST(Run, EndsWithOneLineOfFigures) {
  const Outcome done = run_program(run_tiny({"Once upon a time"}));
  EXPECT_THAT(done.err,
              ::testing::MatchesRegex("prompt [0-9]+ tokens .*generated [0-9]+ tokens .*cache .* bytes\n"));
}

TEST(Run, SameSeedSameText) {
  const auto sampled = [](const std::string& seed) {
    return run_program(run_tiny({"--temperature", "1", "--top-p", "0.95", "--seed", seed, "Once"})).out;
  };
  EXPECT_EQ(sampled("7"), sampled("7"));
  EXPECT_NE(sampled("7"), sampled("8"));
}

TEST(Run, InterruptEndsCleanly) {
  const Outcome stopped = run_program(
      {"run", "--model", kTiny, "--raw", "--max-tokens", "100000", "--context", "100000", "Once upon a time"},
      "", 20);
  EXPECT_EQ(stopped.code, 130);
  EXPECT_THAT(stopped.err, HasSubstr("generated"));
  EXPECT_TRUE(stopped.out.ends_with("\n"));
}

int prompt_tokens(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  int count = 0;
  EXPECT_EQ(std::sscanf(outcome.err.c_str(), "prompt %d tokens", &count), 1) << outcome.err;
  return count;
}

// Llama 3's tokenizer files name a token that stands before every text; older ones do not.
TEST(Run, RawTextFollowsWhatTheTokenizerPutsInFront) {
  const TempFolder folder;
  const std::string model = folder / "model", tokenizer = golden_data("models/tiny-tokenizer");
  const Outcome made = run_program({"synth", "--config", golden_data("models/llama-gqa-tiny") / "config.json",
                                    "--vocab", "1024", "--tokenizer", tokenizer, "--out", model});
  ASSERT_EQ(made.code, 0) << made.err;
  const std::vector<std::string> run{"run", "--raw", "--model", model, "--max-tokens", "1", "Once upon"};
  const int bare = prompt_tokens(run_program(run));
  auto file = nlohmann::json::parse(read_bytes(model + "/tokenizer.json"));
  file["post_processor"] = nlohmann::json::parse(R"({"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<b>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [], "special_tokens": {"<b>": {"id": "<b>", "ids": [0], "tokens": ["<b>"]}}})");
  write_bytes(model + "/tokenizer.json", file.dump());
  EXPECT_EQ(prompt_tokens(run_program(run)), bare + 1);
}

TEST(Synth, WritesTheGoldenBytes) {
  const TempFolder folder;
  const auto cases = nlohmann::json::parse(read_bytes(kTinyCases));
  const Outcome done =
      run_program({"synth", "--config", golden_data("models/v41-tiny") / "config.json", "--seed",
                   std::to_string(cases["seed"].get<std::uint64_t>()), "--out", folder / "model"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(read_bytes(folder / "model/model.safetensors"),
            read_bytes(golden_data("models/v41-tiny") / "model.safetensors"));
}

}  // namespace
}  // namespace seekline::e2e
