// What of a prompt was there already, and what it took to go on from it (design: docs/replay.md).
#pragma once

#include <cstdint>
#include <string>

namespace seekline {

/// Which tokens of a prompt the decoder layers of a causal encoder-decoder (V4.1, YOCO) run on. Without a
/// decoder part both mean the same.
enum class DecoderMode : std::uint8_t {
  kCed,    ///< the last min(N, w) tokens of a prompt of N tokens, as the models are deployed; w: the window
  kExact,  ///< every token
};

/// How windows and compressor tails come back where computing goes on behind stored rows.
enum class ReplayWay : std::uint8_t {
  kAuto,     ///< live windows or a snapshot, else exact replay: whichever computes fewer tokens
  kExact,    ///< exact replay, whatever snapshots there are
  kBounded,  ///< replay of w tokens that see nothing before them: the one approximate way
};

/// A prompt's way into its cache.
struct ReuseReport {
  std::int64_t prompt_tokens = 0;
  std::int64_t reused_tokens = 0;  ///< tokens whose global rows were there and are kept
  std::string from = "nothing";    ///< "nothing", "session", "memory", "disk", "file"
  std::string windows;  ///< how windows came back, such as "snapshot at 384"; empty: nothing to bring back
  std::int64_t replayed_tokens =
      0;  ///< of the reused: computed again for windows, tails and the decoder part
  std::int64_t computed_tokens = 0;  ///< replayed and new
  std::int64_t encoder_evaluations =
      0;  ///< tokens x layers of the encoder part (of all layers without a decoder part)
  std::int64_t decoder_evaluations = 0;
  bool approximate = false;  ///< bounded replay: the answer depends on where the reuse ended
  std::string why_not_more;  ///< empty where everything before the last token was reused
};

}  // namespace seekline
