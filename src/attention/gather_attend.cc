#include "attention/gather_attend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "attention/fetch_rows.h"

namespace seekline {
namespace {

std::int64_t align64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Scratch of one worker.
struct Worker {
  std::uint8_t* keys;
  std::uint8_t* values;
  std::uint8_t* queries;  // prepared, query_bytes apart
  const std::uint8_t** q;
  int* valid;
  AttendState* states;
  std::uint8_t* scratch;
};

class GatherTask {
 public:
  GatherTask(Compute& compute, const GatherShape& shape, int heads_per_task)
      : compute_(compute),
        shape_(shape),
        arithmetic_(compute.settings.arithmetic),
        query_bytes_(align64(compute.kernels.query_bytes(arithmetic_, shape.key_width))) {
    const Kernels& k = compute.kernels;
    Arena& arena = compute.arena;
    workers_ = arena.array<Worker>(compute.pool.size());
    for (int w = 0; w < compute.pool.size(); ++w) {
      workers_[w].keys = arena.bytes(k.tile_bytes(arithmetic_, shape.key_width));
      workers_[w].values = arena.bytes(k.tile_bytes(arithmetic_, shape.value_width));
      workers_[w].queries = arena.bytes(query_bytes_ * heads_per_task);
      workers_[w].q = arena.array<const std::uint8_t*>(heads_per_task);
      workers_[w].valid = arena.array<int>(heads_per_task);
      workers_[w].states = arena.array<AttendState>(heads_per_task);
      workers_[w].scratch = arena.bytes(k.attend_scratch_bytes(heads_per_task));
    }
  }

  void run(const GatherQuery& query, int first_head, int heads, int worker) const {
    Worker& w = workers_[worker];
    const Kernels& k = compute_.kernels;
    for (int h = 0; h < heads; ++h) {
      w.q[h] = w.queries + h * query_bytes_;
      k.prepare_query(arithmetic_, query.q + (first_head + h) * std::int64_t{shape_.key_width},
                      shape_.key_width, w.queries + h * query_bytes_);
    }
    for (int h = 0; h < heads; ++h) {  // only now: the output may lie where the queries were
      float* out = query.out + (first_head + h) * std::int64_t{shape_.value_width};
      std::memset(out, 0, static_cast<std::size_t>(shape_.value_width) * sizeof(float));
      new (w.states + h) AttendState{-std::numeric_limits<float>::infinity(), 0.0f, out};
    }
    for (const RowSegment& segment : query.segments) attend_segment(w, segment, first_head, heads);
    for (int h = 0; h < heads; ++h)
      finish_softmax(k, w.states[h], shape_.sinks ? shape_.sinks + first_head + h : nullptr,
                     shape_.value_width);
  }

 private:
  void attend_segment(Worker& w, const RowSegment& segment, int first_head, int heads) const {
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
  void attend_tile(Worker& w, const RowSegment& segment, int first, int rows, int kv_head, int head,
                   int heads) const {
    const Kernels& k = compute_.kernels;
    AttendTile tile;
    tile.arithmetic = arithmetic_;
    tile.keys = w.keys;
    tile.values = k.load_tile({*segment.format, arithmetic_, segment.rows + first, rows,
                               shape_.key_first + kv_head * shape_.key_width, shape_.key_width,
                               shape_.value_first + kv_head * shape_.value_width, shape_.value_width, w.keys,
                               w.values});
    tile.key_width = shape_.key_width;
    tile.value_width = shape_.value_width;
    tile.scale = shape_.scale;
    tile.queries = heads;
    tile.q = w.q + head;
    tile.valid = w.valid + head;
    tile.states = w.states + head;
    tile.scratch = w.scratch;
    k.attend(tile);
  }

  Compute& compute_;
  const GatherShape& shape_;
  const Arithmetic arithmetic_;
  const std::int64_t query_bytes_;
  Worker* workers_;
};

}  // namespace

void finish_softmax(const Kernels& kernels, const AttendState& state, const float* sink, int width) {
  if (state.sum == 0) return;  // no row: the output stays zero
  float denominator = state.sum;
  if (sink) {
    const float x = *sink - state.max;
    float e;
    kernels.exp(&x, 1, &e);
    denominator += e;
  }
  for (int i = 0; i < width; ++i) state.out[i] /= denominator;
}

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
