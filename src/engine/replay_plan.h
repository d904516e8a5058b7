// What has to be computed to go on from stored rows (docs/replay.md): arithmetic on positions, no state.
#pragma once

#include <cstdint>
#include <span>

#include "cache/snapshot.h"
#include "seekline/cache_plan.h"
#include "seekline/reuse.h"

namespace seekline {

/// Rings that are right at a position: live ones or a snapshot's.
struct RingPoint {
  std::int64_t position = 0;
  SnapshotPart part = SnapshotPart::kAll;
};

struct PromptQuestion {
  std::int64_t tokens = 0;  ///< T: all that shall be in the cache
  std::int64_t prompt = 0;  ///< N <= T: the first of them; the others are an answer that goes on
  std::int64_t rows = 0;    ///< H: tokens whose global rows are there and right
  DecoderMode mode = DecoderMode::kCed;
  ReplayWay way = ReplayWay::kAuto;
};

/// Tokens [start, tokens) are computed, decoder layers from `decoder_start` on; global rows of the first
/// `kept` tokens stay as they are.
struct PromptWork {
  enum class Windows : std::uint8_t { kNone, kPoint, kExactReplay, kBoundedReplay };

  std::int64_t kept = 0;
  std::int64_t start = 0;
  std::int64_t decoder_start = 0;
  std::int64_t window_floor = 0;          ///< first position that windows see
  std::int64_t decoder_window_floor = 0;  ///< the same in decoder layers
  std::int64_t right_from =
      0;  ///< from here on the (encoder) rings are those of a cold run; INT64_MAX: never
  Windows windows = Windows::kNone;
  std::int64_t point = -1;  ///< kPoint: index into the ring points
};

/// Where the rings have to be right: at the first token that is new, or that the decoder part of a prompt
/// begins with.
std::int64_t ring_goal(const CachePlan& plan, const PromptQuestion& question);

/// Tokens before a position that an exact replay computes so that all rings of the layers concerned come out
/// right there: L windows of w tokens reach back L (w - 1), and compressor tails as far as they are long.
std::int64_t replay_reach(const CachePlan& plan, DecoderMode mode);

/// The cheapest work that `way` allows. At least the last token is computed.
PromptWork plan_prompt(const CachePlan& plan, const PromptQuestion& question,
                       std::span<const RingPoint> points);

}  // namespace seekline
