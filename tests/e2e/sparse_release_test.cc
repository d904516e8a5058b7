// The whole released V4.1-Flash, 510 GB of it, as sparse files: opened by its headers alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "e2e/program.h"

namespace seekline::e2e {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Processor time, so that a busy machine does not make the test fail; it grows there all the same, by caches
// that others use. On an idle one the program takes less than 2 s.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr double kMostSeconds = 120;
constexpr std::int64_t kMostResident = std::int64_t{4} << 30;
#else
constexpr double kMostSeconds = 4;
constexpr std::int64_t kMostResident = 300'000'000;
#endif

// V4.1's tokenizer is V4's with some added tokens replaced.
void write_tokenizer(const fs::path& path) {
  auto file = nlohmann::json::parse(read_bytes(golden_data("text/deepseek-v4") / "tokenizer.json"));
  const auto delta = nlohmann::json::parse(read_bytes(golden_data("text/deepseek-v4") / "v41-delta.json"));
  for (const auto& change : delta["changed"])
    for (auto& entry : file["added_tokens"])
      if (entry["id"] == change["id"]) entry.update(change["v41"]);
  write_bytes(path, file.dump());
}

std::string inspect(const std::string& preset) {
  const TempFolder folder;
  write_tokenizer(folder / "tokenizer.json");
  const Outcome made = run_program(
      {"synth", "--preset", preset, "--sparse", "--tokenizer", folder.path(), "--out", folder / "model"});
  EXPECT_EQ(made.code, 0) << made.err;
  const Outcome shown = run_program({"inspect", "--model", folder / "model"});
  EXPECT_EQ(shown.code, 0) << shown.err;
  EXPECT_LT(shown.processor_seconds, kMostSeconds);
  EXPECT_LT(shown.resident_bytes, kMostResident);
  ::testing::Test::RecordProperty("milliseconds", static_cast<int>(shown.processor_seconds * 1000));
  return shown.out;
}

TEST(SparseRelease, IsInspectedByItsHeaders) {
  const std::string shown = inspect("v41-flash");
  EXPECT_THAT(shown, HasSubstr("48 with 96,085 tensors, 510,286,023,000 tensor bytes"));
  for (const char* unused : {"mtp.*", "vision.*", "aligner.*", "image_start*"})
    EXPECT_THAT(shown, HasSubstr(unused));
  EXPECT_THAT(shown, HasSubstr("unused: draft stages"));
}

TEST(SparseRelease, IsTheSameWithoutDraftStagesAndVision) {
  const std::string shown = inspect("v41-flash-text");
  EXPECT_THAT(shown, HasSubstr("44 with 93,418 tensors, 501,382,611,408 tensor bytes"));
  EXPECT_THAT(shown, HasSubstr("890.00 bytes"));
  EXPECT_THAT(shown, Not(HasSubstr("unused:")));
}

}  // namespace
}  // namespace seekline::e2e
