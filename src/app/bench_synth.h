// Checkpoints by formula for `seekline bench`, written once and kept.
#pragma once

#include <cstdint>
#include <string>

namespace seekline {

struct BenchSynth {
  std::string preset, tokenizer;
  std::int64_t layers = 0, experts = 0;  ///< 0: as released
};

/// Where the checkpoint lies, in the user's cache folder; written at the first call, with a line on stderr.
/// Engram tables are cut to 20,000 words an n-gram head (a step reads a few rows of them, whatever their
/// size); without a tokenizer the Engram layers are left out. Throws what synth throws.
std::string bench_model_folder(const BenchSynth& synth);

}  // namespace seekline
