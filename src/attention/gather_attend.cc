#include "attention/gather_attend.h"

#include <algorithm>
#include <new>

#include "attention/fetch_rows.h"
#include "attention/softmax_state.h"
#include "attention/tile_scratch.h"

namespace seekline {
namespace {

class GatherTask {
 public:
  GatherTask(Compute& compute, const GatherShape& shape, int heads_per_task)
      : compute_(compute),
        shape_(shape),
        tile_{shape.key_width, shape.value_width, shape.scale},
        workers_(tile_scratch(compute, tile_, heads_per_task)) {}

  void run(const GatherQuery& query, int first_head, int heads, int worker) const {
    TileScratch& w = workers_[worker];
    for (int h = 0; h < heads; ++h)
      w.prepare_query(compute_, tile_, h, query.q + (first_head + h) * std::int64_t{shape_.key_width});
    for (int h = 0; h < heads; ++h)  // only now: the output may lie where the queries were
      new (w.states + h) AttendState(
          start_softmax(query.out + (first_head + h) * std::int64_t{shape_.value_width}, shape_.value_width));
    for (const RowSegment& segment : query.segments) attend_segment(w, segment, first_head, heads);
    for (int h = 0; h < heads; ++h)
      finish_softmax(compute_.kernels, w.states[h], shape_.sinks ? shape_.sinks + first_head + h : nullptr,
                     shape_.value_width);
  }

 private:
  void attend_segment(TileScratch& w, const RowSegment& segment, int first_head, int heads) const {
    if (segment.count == 0) return;
    const RowLayout layout = row_layout(*segment.format);
    for (int first = 0; first < segment.count; first += kTileRows) {
      const int rows = std::min(kTileRows, segment.count - first);
      fetch_rows(layout, segment.rows + first + rows, std::min(kTileRows, segment.count - first - rows), 0,
                 segment.format->width);
      std::fill(w.valid, w.valid + heads, rows);
      const int group = shape_.heads / shape_.kv_heads;
      for (int done = 0; done < heads;) {  // heads that share a KV head share its tile
        const int kv_head = (first_head + done) / group;
        const int together = std::min(heads - done, (kv_head + 1) * group - first_head - done);
        attend_tile(w, segment, first, rows, kv_head, done, together);
        done += together;
      }
    }
  }

  // Rows [first, first + rows) of a segment for heads [head, head + heads) of the task.
  void attend_tile(TileScratch& w, const RowSegment& segment, int first, int rows, int kv_head, int head,
                   int heads) const {
    AttendTile tile = w.tile(compute_, tile_, head, heads);
    tile.values = compute_.kernels.load_tile(
        {*segment.format, compute_.settings.arithmetic, segment.rows + first, rows,
         shape_.key_first + kv_head * shape_.key_width, shape_.key_width,
         shape_.value_first + kv_head * shape_.value_width, shape_.value_width, w.keys, w.values});
    compute_.kernels.attend(tile);
  }

  Compute& compute_;
  const GatherShape& shape_;
  const TileShape tile_;
  TileScratch* workers_;
};

}  // namespace

void gather_attend(Compute& compute, const GatherShape& shape, std::span<const GatherQuery> queries) {
  const PartScope part(compute.profile, StepPart::kCacheReads);
  if (compute.profile) {
    double rows = 0;
    for (const GatherQuery& query : queries) rows += query.segments[0].count + query.segments[1].count;
    compute.profile->count(0, 2 * rows * shape.heads * (shape.key_width + shape.value_width));
  }
  Arena::Scope scope(compute.arena);
  const int workers = compute.pool.size();
  const std::int64_t tokens = static_cast<std::int64_t>(queries.size());
  // A few tokens: share out the heads, so that every thread has work; the rows are then decoded once a
  // thread.
  const int parts = tokens >= 2 * workers ? 1 : std::min(workers, shape.heads);
  const int heads_per_task = (shape.heads + parts - 1) / parts;
  const GatherTask task(compute, shape, heads_per_task);
  compute.pool.deal(tokens * parts, [&](std::int64_t i, int worker) {
    const int first = static_cast<int>(i % parts) * heads_per_task;
    const int heads = std::min(heads_per_task, shape.heads - first);
    if (heads > 0) task.run(queries[static_cast<std::size_t>(i / parts)], first, heads, worker);
  });
}

}  // namespace seekline
