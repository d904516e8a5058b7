// Released geometries by name, and how to cut them down.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace seekline {

struct Preset {
  std::string name, what;
};

/// All presets, in the order in which `--help` shows them.
const std::vector<Preset>& presets();

/// The config.json of a preset. Throws Error(kUsage) that lists the names.
nlohmann::json preset_config(const std::string& name);

/// Changes to a config. They are applied in this order: layers, experts, vocab, set.
struct ConfigOverrides {
  std::optional<std::int64_t> layers, experts, vocab;
  /// "key", "value" pairs; a dotted key names a nested one ("rope_scaling.factor"), and a key that only
  /// text_config has may be written without it. The value is JSON, or text where it is no JSON.
  std::vector<std::pair<std::string, std::string>> set;
};

/// Cuts a config down; the result is still to be parsed, which refuses what does not fit together.
///
/// Layers: the cut model is the first layers of the released one. Layer i keeps its compress_ratio and its
/// roles; layer ids in source and Engram lists that are no longer there are dropped (a dropped candidate
/// source turns the pool off), draft stages keep their ratios and take their taps from the same distance to
/// the last layer (a model too short for that has none). The first 8 layers of V4.1 (one m = 2 store, scanned
/// once) read exactly 1/5 of what 40 layers read of index keys, so times at long contexts stay in proportion.
/// Experts: more active ones than there are experts become all of them, and groups are given up where they
/// would hold fewer than two experts or not divide them. Draft stages are cut likewise. Vocab: special tokens
/// beyond it become its last token.
void apply_overrides(nlohmann::json& config, const ConfigOverrides& overrides);

}  // namespace seekline
