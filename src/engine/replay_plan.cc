#include "engine/replay_plan.h"

#include <algorithm>
#include <limits>

#include "core/check.h"

namespace seekline {
namespace {

bool has_rings(const CachePlan& plan) {
  return std::ranges::any_of(plan.stores, [](const Store& store) { return !store.growing(); });
}

bool has_decoder(const CachePlan& plan) {
  return plan.first_decoder_layer() < static_cast<int>(plan.layers.size());
}

bool runs_ced(const CachePlan& plan, DecoderMode mode) {
  return mode == DecoderMode::kCed && has_decoder(plan);
}

std::int64_t first_of_last_window(const CachePlan& plan, std::int64_t prompt) {
  return std::max<std::int64_t>(0, prompt - std::max(1, plan.window));
}

std::int64_t longest_tail(const CachePlan& plan) {
  std::int64_t rows = 0;
  for (const Store& store : plan.stores)
    if (store.kind == StoreKind::kTail) rows = std::max(rows, store.ring_rows);
  return rows;
}

// The last ring point at or before `limit` that holds what is needed; -1: none.
std::int64_t best_point(std::span<const RingPoint> points, SnapshotPart needed, std::int64_t limit) {
  std::int64_t best = -1;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool suffices = points[i].part == SnapshotPart::kAll || needed == SnapshotPart::kEncoder;
    if (!suffices || points[i].position > limit) continue;
    if (best < 0 || points[i].position > points[static_cast<std::size_t>(best)].position)
      best = static_cast<std::int64_t>(i);
  }
  return best;
}

}  // namespace

std::int64_t replay_reach(const CachePlan& plan, DecoderMode mode) {
  const int layers =
      mode == DecoderMode::kCed ? plan.first_decoder_layer() : static_cast<int>(plan.layers.size());
  std::int64_t windows = 0;
  for (int layer = 0; layer < layers; ++layer)
    windows += plan.layers[static_cast<std::size_t>(layer)].window.has_value();
  return windows * std::max(0, plan.window - 1) + longest_tail(plan);
}

std::int64_t ring_goal(const CachePlan& plan, const PromptQuestion& q) {
  const std::int64_t kept = std::min(q.rows, q.tokens - 1);
  return runs_ced(plan, q.mode) ? std::min(kept, first_of_last_window(plan, q.prompt)) : kept;
}

PromptWork plan_prompt(const CachePlan& plan, const PromptQuestion& q, std::span<const RingPoint> points) {
  SEEKLINE_CHECK(q.tokens >= 1 && q.prompt >= 1 && q.prompt <= q.tokens, "a prompt has tokens");
  const bool ced = runs_ced(plan, q.mode);
  PromptWork work;
  work.kept = std::min(q.rows, q.tokens - 1);
  const std::int64_t decoder = first_of_last_window(plan, q.prompt);
  const std::int64_t goal = ring_goal(plan, q);
  work.start = goal;
  work.right_from = goal;
  if (has_rings(plan) && goal > 0) {
    const std::int64_t point =
        q.way == ReplayWay::kAuto
            ? best_point(points, ced ? SnapshotPart::kEncoder : SnapshotPart::kAll, goal)
            : -1;
    const std::int64_t from_point = point < 0 ? 0 : points[static_cast<std::size_t>(point)].position;
    const std::int64_t back = q.way == ReplayWay::kBounded
                                  ? std::max<std::int64_t>(plan.window, longest_tail(plan))
                                  : replay_reach(plan, ced ? DecoderMode::kCed : DecoderMode::kExact);
    const std::int64_t from_replay = std::max<std::int64_t>(0, goal - back);
    if (from_point > 0 && from_point >= from_replay) {
      work.windows = PromptWork::Windows::kPoint;
      work.point = point;
      work.start = work.right_from = from_point;
    } else {
      work.start = from_replay;
      work.window_floor = from_replay;
      const bool bounded = q.way == ReplayWay::kBounded && from_replay > 0;
      work.windows = bounded ? PromptWork::Windows::kBoundedReplay : PromptWork::Windows::kExactReplay;
      if (bounded) work.right_from = std::numeric_limits<std::int64_t>::max();
      if (from_replay == 0) work.right_from = 0;
    }
  }
  work.decoder_start = ced ? decoder : work.start;
  work.decoder_window_floor = ced ? decoder : work.window_floor;
  return work;
}

}  // namespace seekline
