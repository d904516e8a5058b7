#include "app/bench_synth.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/engram_tables.h"
#include "checkpoint/presets.h"
#include "checkpoint/synth.h"
#include "core/thread_pool.h"
#include "seekline/error.h"

namespace seekline {
namespace {

std::filesystem::path cache_folder() {
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache && *cache) return cache;
  const char* home = std::getenv("HOME");
  if (!home || !*home)
    throw Error(ErrorCode::kUsage,
                "neither XDG_CACHE_HOME nor HOME is set, so there is no place for the model; use --model");
  return std::filesystem::path(home) / ".cache";
}

void cut_engram(nlohmann::json& config, bool keep) {
  if (!config.contains("text_config") || !config["text_config"].contains("engram_layer_ids")) return;
  nlohmann::json& text = config["text_config"];
  text["engram_vocab_size"] = 20000;
  if (!keep) text["engram_layer_ids"] = nlohmann::json::array();
  fit_engram_tables(config);
}

// Whether the released files of this geometry have f32 block scales that are powers of two.
bool has_power_scales(const nlohmann::json& config) {
  return config.value("model_type", "") == "deepseek_v32";
}

}  // namespace

std::string bench_model_folder(const BenchSynth& synth) {
  nlohmann::json config = preset_config(synth.preset);
  ConfigOverrides overrides;
  if (synth.layers > 0) overrides.layers = synth.layers;
  if (synth.experts > 0) overrides.experts = synth.experts;
  apply_overrides(config, overrides);
  cut_engram(config, !synth.tokenizer.empty());
  std::string name = synth.preset;
  if (synth.layers > 0) name += fmt::format("-{}layers", synth.layers);
  if (synth.experts > 0) name += fmt::format("-{}experts", synth.experts);
  if (!synth.tokenizer.empty()) name += "-engram";
  if (has_power_scales(config)) name += "-power-scales";
  const std::filesystem::path folder = cache_folder() / "seekline" / "bench" / name;
  if (std::filesystem::exists(folder / "config.json")) return folder.string();
  fmt::print(stderr, "writing {} by formula\n", folder.string());
  SynthOptions options;
  options.threads = default_threads();
  options.tokenizer = synth.tokenizer;
  options.power_scales = has_power_scales(config);
  write_synth(config, "preset " + synth.preset, folder, options);
  return folder.string();
}

}  // namespace seekline
