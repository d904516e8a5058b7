// Writes checkpoints whose weights follow a formula (synth_formula.h), in the layout of the releases.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

#include <nlohmann/json_fwd.hpp>

namespace seekline {

struct SynthOptions {
  std::uint64_t seed = 1;
  /// True headers and shard layout, but the data are holes that read as zeros and take no space.
  bool sparse = false;
  /// F32 block scales are the powers of two that the formula spreads them around, as the released files of
  /// `scale_fmt: ue8m0` have them (DeepSeek-V3.1, V3.2).
  bool power_scales = false;
  int threads = 2;
  /// A tokenizer.json, or a folder that holds one, to be copied; empty: none.
  std::filesystem::path tokenizer;
  /// Called now and then from the calling thread, and at the end; in bytes of tensor data.
  std::function<void(std::int64_t done, std::int64_t total)> progress;
};

struct SynthResult {
  std::int64_t files = 0, tensors = 0, tensor_bytes = 0;
};

/// Writes config.json, the shards (one model.safetensors where everything fits in kSingleFileBytes) and
/// model.safetensors.index.json into `folder`, which is made if need be and must hold no checkpoint yet.
/// Files carry the ending ".partial" until all of them are complete. Throws Error(kUsage) where a checkpoint
/// is in the way, Error(kIo) where writing fails or the disk is too small, and what the family's
/// parse_*_config throws; `subject` names the config in messages.
SynthResult write_synth(const nlohmann::json& config, const std::string& subject,
                        const std::filesystem::path& folder, const SynthOptions& options);

constexpr std::int64_t kSingleFileBytes = std::int64_t{2} << 30;

}  // namespace seekline
