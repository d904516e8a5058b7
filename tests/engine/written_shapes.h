// Golden checkpoints at released widths (golden/data/synth): configuration and expected logits are kept, the
// weights are written by formula into a temporary folder.
#pragma once

#include "checkpoint/config_reader.h"
#include "checkpoint/synth.h"
#include "core/temp_folder.h"
#include "core/thread_pool.h"
#include "engine/golden_check.h"

namespace seekline::golden {

class WrittenShapes {
 public:
  explicit WrittenShapes(const std::string& name)
      : golden_(std::string(SEEKLINE_SOURCE_DIR) + "/tests/golden/data/synth/" + name),
        expected_(golden_ + "/expected.safetensors") {
    std::ifstream file(golden_ + "/cases.json");
    SynthOptions options;
    options.seed = nlohmann::json::parse(file)["seed"].get<std::uint64_t>();
    options.threads = default_threads();
    if (std::filesystem::exists(golden_ + "/tokenizer.json")) options.tokenizer = golden_;
    write_synth(read_config_file(golden_ + "/config.json"), name, folder_.path(), options);
  }

  std::shared_ptr<Model> open(NumericSettings settings) const {
    return open_folder(folder_.path(), settings, default_threads());
  }
  const SafetensorsLite& expected() const { return expected_; }
  GoldenCase golden_case(const std::string& id) const {
    for (GoldenCase& c : golden_cases(golden_))
      if (c.id == id) return c;
    throw std::runtime_error("no case " + id);
  }

 private:
  const std::string golden_;
  const SafetensorsLite expected_;
  const TempFolder folder_;
};

/// Why a checkpoint of so many bytes is not written here; empty: it can be.
inline std::string too_much(std::uintmax_t bytes) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "too long under a sanitizer";
#endif
  const std::filesystem::path folder = std::filesystem::temp_directory_path();
  if (std::filesystem::space(folder).available >= bytes) return {};
  return "needs " + std::to_string(bytes / 1'000'000'000) + " GB of free space in " + folder.string();
}

/// Minutes of work: ./dev test-large.
inline bool wants_large() { return std::getenv("SEEKLINE_LARGE_TESTS") != nullptr; }

}  // namespace seekline::golden
