// DeepSeek-V4 at its released widths (golden/data/synth/v4-true4): the weights are written by formula into a
// temporary folder, 1.5 GB of it. The long case runs where SEEKLINE_LARGE_TESTS is set (./dev test-large).
#include <cstdlib>

#include "checkpoint/config_reader.h"
#include "checkpoint/synth.h"
#include "core/thread_pool.h"
#include "engine/golden_check.h"

namespace seekline::golden {
namespace {

namespace fs = std::filesystem;

const std::string& golden_folder() {
  static const std::string folder = std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/synth/v4-true4";
  return folder;
}

// The checkpoint, written once, gone with the object.
class WrittenV4 {
 public:
  WrittenV4() {
    if (mkdtemp(folder_.data()) == nullptr) throw std::runtime_error("no temporary folder");
    std::ifstream file(golden_folder() + "/cases.json");
    SynthOptions options;
    options.seed = nlohmann::json::parse(file)["seed"].get<std::uint64_t>();
    options.threads = default_threads();
    write_synth(read_config_file(golden_folder() + "/config.json"), "v4-true4", folder_, options);
  }
  ~WrittenV4() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  WrittenV4(const WrittenV4&) = delete;
  WrittenV4& operator=(const WrittenV4&) = delete;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_ = (fs::temp_directory_path() / "seekline-v4true-XXXXXX").string();
};

// Root mean square distance of the last row of a case from the reference, and the reference's own noise.
struct Distance {
  double error, noise;
};

Distance distance(const WrittenV4& shapes, const std::string& id, const Mode& mode,
                  const std::string& noise) {
  const auto model = open_folder(shapes.folder(), mode.settings, default_threads());
  const SafetensorsLite expected(golden_folder() + "/expected.safetensors");
  const std::size_t vocab = static_cast<std::size_t>(model->vocab_size());
  for (const GoldenCase& c : golden_cases(golden_folder())) {
    if (c.id != id) continue;
    const std::vector<float> got = all_logits(*model, c.tokens, {c.tokens.size()});
    const std::vector<float> want = expected.at(id + "/" + mode.name + "/logits").as<float>();
    return {rms_difference(got.data() + static_cast<std::size_t>(c.rows[0]) * vocab, want.data(), vocab),
            static_cast<double>(expected.at(id + "/" + noise).as<float>()[1])};
  }
  throw std::runtime_error("no case " + id);
}

TEST(TrueShapes, OfV4GiveTheLogitsOfTheReference) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "too long under a sanitizer";
#endif
  if (fs::space(fs::temp_directory_path()).available < std::uintmax_t{2'000'000'000})
    GTEST_SKIP() << "needs 2 GB of free space in " << fs::temp_directory_path();
  const WrittenV4 shapes;
  // The sharp one: no quantizer of the reference stands at an edge.
  const Distance plain = distance(shapes, "s5", kPlain, "noise_plain");
  EXPECT_LT(plain.noise, 1e-5);
  EXPECT_LE(plain.error, std::max(10 * plain.noise, 2e-5));
  const Distance exact = distance(shapes, "s5", kExact, "noise");
  EXPECT_LE(exact.error, 3 * exact.noise);
  if (std::getenv("SEEKLINE_LARGE_TESTS") == nullptr) return;
  const Distance long_plain = distance(shapes, "s300", kPlain, "noise_plain");
  EXPECT_LE(long_plain.error, 3 * long_plain.noise);
}

}  // namespace
}  // namespace seekline::golden
