// seekline synth: checkpoints by formula, in the layout of the releases.
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/commands.h"
#include "app/engram_tables.h"
#include "checkpoint/config_reader.h"
#include "checkpoint/presets.h"
#include "checkpoint/synth.h"
#include "core/thread_pool.h"
#include "seekline/error.h"

namespace seekline {
namespace {

struct SynthCommand {
  std::string preset, config, out, tokenizer;
  std::int64_t layers = 0, experts = 0, vocab = 0;
  std::vector<std::string> set;
  SynthOptions options;
};

ConfigOverrides overrides_of(const SynthCommand& c) {
  ConfigOverrides overrides;
  if (c.layers > 0) overrides.layers = c.layers;
  if (c.experts > 0) overrides.experts = c.experts;
  if (c.vocab > 0) overrides.vocab = c.vocab;
  overrides.set = key_values(c.set);
  return overrides;
}

void synth(SynthCommand& c) {
  if (c.preset.empty() == c.config.empty())
    throw Error(ErrorCode::kUsage, "synth needs either --preset or --config");
  const std::string subject = c.preset.empty() ? c.config : "preset " + c.preset;
  nlohmann::json config = c.preset.empty() ? read_config_file(c.config) : preset_config(c.preset);
  apply_overrides(config, overrides_of(c));
  try {
    if (!c.preset.empty()) fit_engram_tables(config);
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: its Engram keys do not fit together ({})", subject, error.what()));
  }
  c.options.tokenizer = c.tokenizer;
  c.options.threads = default_threads();
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const bool show = isatty(STDERR_FILENO) != 0;
  c.options.progress = [&](std::int64_t done, std::int64_t total) {
    if (show)
      fmt::print(stderr, "\r{} of {}, {}/s ", human_bytes(static_cast<double>(done)),
                 human_bytes(static_cast<double>(total)),
                 human_bytes(static_cast<double>(done) / (seconds() + 1e-9)));
  };
  const SynthResult result = write_synth(config, subject, c.out, c.options);
  if (show) fmt::print(stderr, "\r\033[K");
  fmt::print("{}: {} files, {} tensors, {} tensor bytes in {:.1f} s\n", c.out, result.files,
             with_commas(result.tensors), with_commas(result.tensor_bytes), seconds());
}

std::string preset_list() {
  std::string text = "Presets:\n";
  for (const Preset& preset : presets()) text += fmt::format("  {:<16} {}\n", preset.name, preset.what);
  return text;
}

}  // namespace

void add_synth_command(CLI::App& app) {
  const auto c = std::make_shared<SynthCommand>();
  CLI::App* command = app.add_subcommand("synth", "write a checkpoint whose weights follow a formula");
  command->add_option("--preset", c->preset, "a released geometry (listed below)");
  command->add_option("--config", c->config, "a config.json of any family this engine runs");
  command->add_option("--out", c->out, "folder to write")->required();
  command->add_option("--seed", c->options.seed, "same config and seed, same bytes")->capture_default_str();
  command->add_option("--layers", c->layers, "keep the first layers only")
      ->check(CLI::PositiveNumber.description(""));
  command->add_option("--experts", c->experts, "routed experts a layer")
      ->check(CLI::PositiveNumber.description(""));
  command->add_option("--vocab", c->vocab, "vocabulary")->check(CLI::PositiveNumber.description(""));
  command->add_option("--set", c->set, "key=value in the config; value as JSON (may be given several times)");
  command->add_option("--tokenizer", c->tokenizer, "tokenizer.json, or a folder with one, to copy");
  command->add_flag("--power-scales", c->options.power_scales,
                    "f32 block scales are powers of two, as files of scale_fmt ue8m0 have them");
  command->add_flag("--sparse", c->options.sparse, "true headers and shard layout, data as holes");
  command->footer(preset_list());
  command->callback([c] { synth(*c); });
}

}  // namespace seekline
