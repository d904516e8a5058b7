// V2-Lite at its released widths (golden/data/synth/v2lite-true3): the weights are written by formula into a
// temporary folder, 0.6 GB of it. The long case runs where SEEKLINE_LARGE_TESTS is set.
#include <cstdlib>

#include "checkpoint/config_reader.h"
#include "checkpoint/synth.h"
#include "core/thread_pool.h"
#include "engine/golden_check.h"

namespace seekline::golden {
namespace {

namespace fs = std::filesystem;

constexpr double kF32Rounding = 2e-5;
// Five tokens have 8,640 values that are rounded to bf16; where one of them stands at an edge, logits move by
// 1e-4.
constexpr double kBF16Edges = 5e-4;
constexpr std::uintmax_t kNeededBytes = 1'000'000'000;

std::string golden_folder() {
  return std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/synth/v2lite-true3";
}

// The checkpoint, written once.
class WrittenV2Lite {
 public:
  WrittenV2Lite() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no temporary folder");
    std::ifstream file(golden_folder() + "/cases.json");
    SynthOptions options;
    options.seed = nlohmann::json::parse(file)["seed"].get<std::uint64_t>();
    options.threads = default_threads();
    write_synth(read_config_file(golden_folder() + "/config.json"), "v2lite-true3", folder_, options);
  }
  ~WrittenV2Lite() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  WrittenV2Lite(const WrittenV2Lite&) = delete;
  WrittenV2Lite& operator=(const WrittenV2Lite&) = delete;

  std::shared_ptr<Model> open(NumericSettings settings) const {
    return open_folder(folder_, settings, default_threads());
  }

 private:
  std::string folder_ = (fs::temp_directory_path() / "seekline-v2lite-XXXXXX").string();
};

// `most`: rms by which the last token's logits may differ.
void check_logits(const WrittenV2Lite& shapes, Mode mode, LatentOrder order, const std::string& id,
                  double most) {
  mode.settings.latent_order = order;
  const auto model = shapes.open(mode.settings);
  const SafetensorsLite expected(golden_folder() + "/expected.safetensors");
  for (const GoldenCase& c : golden_cases(golden_folder())) {
    if (c.id != id) continue;
    const RowCheck row = compare_rows(expected, c, mode.name, all_logits(*model, c.tokens, {c.tokens.size()}),
                                      static_cast<std::size_t>(model->vocab_size()));
    EXPECT_EQ(row.clean, 1);
    EXPECT_LE(row.worst_clean, most) << id << " " << mode.name;
  }
}

TEST(TrueShapes, OfV2LiteGiveTheLogitsOfTheReference) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "too long under a sanitizer";
#endif
  if (fs::space(fs::temp_directory_path()).available < kNeededBytes)
    GTEST_SKIP() << "needs 1 GB of free space in " << fs::temp_directory_path();
  const WrittenV2Lite shapes;
  check_logits(shapes, kPlainF32Rows, LatentOrder::kAbsorb, "s5", kF32Rounding);
  check_logits(shapes, kPlainF32Rows, LatentOrder::kExpand, "s5", kF32Rounding);
  check_logits(shapes, kBF16Rows, LatentOrder::kAuto, "s5", kBF16Edges);
  if (std::getenv("SEEKLINE_LARGE_TESTS") != nullptr)
    check_logits(shapes, kPlainF32Rows, LatentOrder::kAuto, "s200", kF32Rounding);
}

}  // namespace
}  // namespace seekline::golden
