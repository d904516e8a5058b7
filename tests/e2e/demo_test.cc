// `seekline run --demo`: the shipped model, its document, and figures that follow from the plan.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <regex>

#include <nlohmann/json.hpp>

#include "e2e/program.h"

namespace seekline::e2e {
namespace {

using ::testing::HasSubstr;

#if defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 50;
#else
constexpr double kMostSeconds = 5;
#endif

const fs::path kShipped = fs::path(SEEKLINE_SOURCE_DIR) / "models/nano-v41";

// The number of the first group, thousands' commas left out.
std::int64_t number_in(const std::string& text, const std::string& pattern) {
  std::smatch found;
  if (!std::regex_search(text, found, std::regex(pattern))) {
    ADD_FAILURE() << "nothing like " << pattern << " in\n" << text;
    return -1;
  }
  return std::stoll(std::regex_replace(found[1].str(), std::regex(","), ""));
}

TEST(Demo, AnswersEveryQuestionWithinFiveProcessorSeconds) {
  const Outcome demo = run_program({"run", "--demo"});
  ASSERT_EQ(demo.code, 0) << demo.err;
  const auto questions = nlohmann::json::parse(read_bytes(kShipped / "demo/questions.json"))["questions"];
  EXPECT_GE(questions.size(), 5U);
  for (const auto& q : questions) EXPECT_THAT(demo.out, HasSubstr(q["question"].get<std::string>()));
  EXPECT_GE(number_in(demo.out, R"((\d+) of \d+ right)"), 0);
  EXPECT_LT(demo.processor_seconds, kMostSeconds);
}

TEST(Demo, SaysTheBytesThatThePlanGives) {
  const Outcome demo = run_program({"run", "--demo", "--threads", "1"});
  ASSERT_EQ(demo.code, 0) << demo.err;
  const std::int64_t tokens = number_in(demo.out, R"(cache of ([\d,]+) tokens)");
  const Outcome planned =
      run_program({"plan", "--model", kShipped, "--context", std::to_string(tokens), "--json"});
  ASSERT_EQ(planned.code, 0) << planned.err;
  const auto plan = nlohmann::json::parse(planned.out);
  const std::int64_t tails = number_in(demo.out, R"(compressor tails .* ([\d,]+) +0 +0\n)");
  const std::string together = R"(together +[\d,]+ +([\d,]+) +[\d,]+ +[\d,]+\n)";
  EXPECT_EQ(number_in(demo.out, together), plan["accounting"]["cache_bytes"].get<std::int64_t>() + tails);
  EXPECT_EQ(number_in(demo.out, R"(together +[\d,]+ +[\d,]+ +[\d,]+ +([\d,]+)\n)"),
            plan["reads"]["total"].get<std::int64_t>());
  const auto config = nlohmann::json::parse(read_bytes(kShipped / "config.json"))["text_config"];
  const std::int64_t values = config["num_hidden_layers"].get<std::int64_t>() *
                              config["num_attention_heads"].get<std::int64_t>() *
                              config["head_dim"].get<std::int64_t>() * 2;
  EXPECT_EQ(number_in(demo.out, R"(MHA of .*\) +[\d,]+ +([\d,]+) )"), tokens * values * 2);
}

TEST(Demo, PrefillRunsTheDecoderOnTheLastWindowUnlessAskedForAll) {
  const std::string done = R"(first prompt, [\d,]+ tokens: ([\d,]+) evaluations)",
                    all = R"(on every token: ([\d,]+))";
  const Outcome ced = run_program({"run", "--demo"}),
                exact = run_program({"run", "--demo", "--decoder", "exact"});
  EXPECT_LT(number_in(ced.out, done), 0.6 * static_cast<double>(number_in(ced.out, all)));
  EXPECT_EQ(number_in(exact.out, done), number_in(exact.out, all));
}

TEST(Demo, TakesNoPromptAndSaysWhereTheShippedModelShouldBe) {
  EXPECT_EQ(run_program({"run", "--demo", "a prompt"}).code, 2);
  setenv("SEEKLINE_MODELS", "/no/such/folder", 1);
  const Outcome missing = run_program({"run", "--demo"});
  unsetenv("SEEKLINE_MODELS");
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("/no/such/folder/nano-v41"));
}

TEST(Demo, ShippedModelIsUnderTwentyMegabytes) {
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::recursive_directory_iterator(kShipped))
    if (entry.is_regular_file()) bytes += entry.file_size();
  EXPECT_GT(bytes, 1U << 20);
  EXPECT_LT(bytes, 20'000'000U);
}

}  // namespace
}  // namespace seekline::e2e
