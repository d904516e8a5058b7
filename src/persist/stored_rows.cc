#include "persist/stored_rows.h"

#include <algorithm>

namespace seekline {

StoredRows::StoredRows(std::shared_ptr<PrefixStore> store, DecoderMode mode, const CachePlan& plan)
    : store_(std::move(store)),
      part_(mode == DecoderMode::kCed && plan.first_decoder_layer() < static_cast<int>(plan.layers.size())
                ? SnapshotPart::kEncoder
                : SnapshotPart::kAll) {}

RowSource::Found StoredRows::find(std::span<const std::int32_t> tokens) {
  const PrefixHit hit = store_->lookup(tokens, part_);
  return {hit.length(), hit.why_not_more()};
}

std::string StoredRows::load(std::span<const std::int32_t> tokens, std::int64_t rings_at_most,
                             Timeline& timeline) {
  const PrefixHit hit = store_->lookup(tokens, part_, rings_at_most);
  std::string why_not;
  if (hit.length() > timeline.rows()) {
    why_not = store_->restore(hit, hit.length(), timeline.cache()).why_not_all;
    timeline.rows_restored("disk");
  }
  std::int64_t best = 0;
  for (const RingPoint& point : timeline.ring_points())
    if (point.position <= rings_at_most) best = std::max(best, point.position);
  const std::int64_t stored = hit.snapshot_position();
  if (stored <= best || stored > timeline.rows()) return why_not;
  std::string why_no_rings;
  if (store_->restore_snapshot(hit, timeline.cache(), why_no_rings)) {
    timeline.rings_lost();
    timeline.add_snapshot(std::make_shared<Snapshot>(
        take_snapshot(timeline.cache(), hit.snapshot_part(), hit.snapshot_position())));
  } else if (why_not.empty()) {
    why_not = why_no_rings;
  }
  return why_not;
}

void StoredRows::save(const Timeline& timeline, bool rings) {
  if (timeline.rows() == 0) return;
  store_->store(timeline.cache(), rings ? std::optional(timeline.ring_part()) : std::nullopt);
}

}  // namespace seekline
