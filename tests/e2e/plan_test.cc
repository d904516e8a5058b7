// seekline plan and inspect --attention, as a reader of docs/generations.md types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <vector>

#include <nlohmann/json.hpp>

#include "e2e/program.h"

namespace seekline::e2e {
namespace {

using ::testing::HasSubstr;

TEST(PlanCompare, SetsTheGenerationsSideBySide) {
  const Outcome text = run_program({"plan", "--compare"});
  EXPECT_EQ(text.code, 0) << text.err;
  for (const char* number :
       {"3,932,160 ", "389,120 ",   "69,120 ",  "70,272 ",  "48,068 ",  "3,514.25", "890 ",
        "1/57",       "1/82",       "1/1,119",  "1/4,418",  "at 915",   "at 3,038", "85,888 ",
        "3,200 ",     "515.396 GB", "1.137 GB", "68.25 MB", "35.05 MB", "2,624,000"})
    EXPECT_THAT(text.out, HasSubstr(number));
}

TEST(PlanCompare, JsonHoldsTheSameFigures) {
  const auto json =
      nlohmann::json::parse(run_program({"plan", "--preset", "v2", "--preset", "v41-flash", "--json"}).out);
  ASSERT_EQ(json["models"].size(), 2U);
  EXPECT_EQ(json["models"][0]["name"], "v2");
  EXPECT_EQ(json["models"][1]["reads"]["total"], 35045376);
  EXPECT_EQ(json["models"][1]["bf16"]["stored_bytes_per_token"], 3200);
  EXPECT_EQ(json["models"][1]["accounting"]["search"]["scored_rows"], 393216);
  EXPECT_EQ(json["models"][1]["accounting"]["window_crossover_tokens"], 3038);
}

TEST(PlanCompare, CsvHasALinePerModelAndContext) {
  const Outcome csv = run_program({"plan", "--compare", "--csv"});
  EXPECT_EQ(csv.code, 0) << csv.err;
  std::istringstream lines(csv.out);
  std::string header, line;
  std::getline(lines, header);
  const auto columns = std::count(header.begin(), header.end(), ',');
  std::map<std::string, int> models;
  while (std::getline(lines, line)) {
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), columns) << line;
    ++models[line.substr(0, line.find(','))];
  }
  EXPECT_EQ(models.size(), 7U);
  for (const auto& [name, count] : models) EXPECT_EQ(count, 14) << name;
}

std::string plotted(const char* name) {
  const TempFolder folder;
  const Outcome plot = run_program({"plan", "--compare", "--plot", folder / name});
  EXPECT_EQ(plot.code, 0) << plot.err;
  return read_bytes(folder / name);
}

TEST(PlanPlot, DrawsSvgAndPng) {
  const std::string svg = plotted("curves.svg");
  EXPECT_THAT(svg, HasSubstr("<svg"));
  for (const char* text : {"v41-flash", "mha-v2size", "Stored bytes per token", "Cache of one sequence"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_EQ(plotted("curves.png").substr(1, 3), "PNG");
}

TEST(PlanPlot, RefusesOtherEndings) {
  const Outcome plot = run_program({"plan", "--compare", "--plot", "curves.pdf"});
  EXPECT_EQ(plot.code, 2);
  EXPECT_THAT(plot.err, HasSubstr("must end in .svg or .png"));
}

TEST(InspectAttention, ShowsTheOmittedMassOfEverySelectingLayer) {
  const std::string text =
      "A text that is long enough to have more finished groups than the eight that a query of this small "
      "model may select, which takes some more words than one might think, and then a few.";
  const Outcome shown =
      run_program({"inspect", "--model", golden_data("models/v4-tiny"), "--attention", text});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("top 8 of layer 1"));
  EXPECT_THAT(shown.out, HasSubstr("max delta"));
}

TEST(InspectAttention, RefusesModelsThatReadEverything) {
  const Outcome shown =
      run_program({"inspect", "--model", golden_data("models/llama-gqa-tiny"), "--attention", "a text"});
  EXPECT_EQ(shown.code, 2);
  EXPECT_THAT(shown.err, HasSubstr("nothing is left out"));
}

}  // namespace
}  // namespace seekline::e2e
