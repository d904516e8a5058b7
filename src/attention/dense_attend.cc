#include "attention/dense_attend.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "attention/fetch_rows.h"
#include "attention/softmax_state.h"
#include "attention/tile_scratch.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

// Each tile of rows is decoded for this many, fewer where threads would be idle; six make a micro-kernel.
constexpr int kMostQueries = 192, kFewestQueries = 64;

// Queries that share rows: a block of tokens of one run, heads of one KV head's group.
struct Task {
  const FlatRun* run;
  std::int64_t first_token;  // flat row
  int tokens;
  int kv_head;
  int first_head, heads;  // of all heads

  int queries() const { return tokens * heads; }
  // Query `query` is of this flat row and of this head.
  std::int64_t row(int query) const { return first_token + query / heads; }
  int head(int query) const { return first_head + query % heads; }
  std::int64_t splits() const {
    const std::int64_t rows = run->first_position + first_token - run->begin + tokens;
    return (rows + kSplitRows - 1) / kSplitRows;
  }
};

struct Worker {
  TileScratch tiles;  // its states: those of the split at work
  float* part_out;
  RowRef* rows;
};

class DenseAttention {
 public:
  DenseAttention(Compute& compute, const TokenBatch& batch, const Store& store, const DenseShape& shape,
                 MatrixView<const float> q, MatrixView<float> out)
      : compute_(compute),
        batch_(batch),
        store_(store),
        shape_(shape),
        q_(q),
        out_(out),
        tile_{shape.key_width, shape.value_width, shape.scale} {
    tokens_per_task_ = std::max(1, kMostQueries / shape.group());
    if (token_blocks() * shape.kv_heads < 4 * compute.pool.size())
      tokens_per_task_ = std::max(1, kFewestQueries / shape.group());
    heads_per_task_ = (shape.group() + head_parts() - 1) / head_parts();
    max_queries_ = tokens_per_task_ * heads_per_task_;
    make_tasks();
    make_workers();
  }

  void run() {
    if (task_count_ >= 2 * compute_.pool.size() || most_splits() == 1) {
      run_tasks();
    } else {
      run_splits();
    }
  }

 private:
  std::int64_t token_blocks(const FlatRun& run) const {
    return (run.count + tokens_per_task_ - 1) / tokens_per_task_;
  }

  std::int64_t token_blocks() const {
    std::int64_t blocks = 0;
    for (const FlatRun& run : batch_.runs) blocks += token_blocks(run);
    return blocks;
  }

  // A group's heads share the decoding of their rows. They are parted only where threads would be idle.
  int head_parts() const {
    std::int64_t units = 0;
    for (const FlatRun& run : batch_.runs)
      units += token_blocks(run) * ((run.first_position + run.count + kSplitRows - 1) / kSplitRows);
    units *= shape_.kv_heads;
    const std::int64_t parts = units == 0 ? 1 : (compute_.pool.size() + units - 1) / units;
    return static_cast<int>(std::min<std::int64_t>(parts, shape_.group()));
  }

  void make_tasks() {
    const int parts = (shape_.group() + heads_per_task_ - 1) / heads_per_task_;
    tasks_ = compute_.arena.array<Task>(token_blocks() * shape_.kv_heads * parts);
    for (const FlatRun& run : batch_.runs)
      for (std::int64_t t = 0; t < run.count; t += tokens_per_task_)
        for (int head = 0; head < shape_.kv_heads; ++head)
          for (int part = 0; part < parts; ++part) {
            const int first = part * heads_per_task_;
            new (tasks_ + task_count_++)
                Task{&run,
                     run.begin + t,
                     static_cast<int>(std::min<std::int64_t>(tokens_per_task_, run.count - t)),
                     head,
                     head * shape_.group() + first,
                     std::min(heads_per_task_, shape_.group() - first)};
          }
  }

  void make_workers() {
    Arena& arena = compute_.arena;
    workers_ = arena.array<Worker>(compute_.pool.size());
    for (int w = 0; w < compute_.pool.size(); ++w)
      new (workers_ + w) Worker{TileScratch(compute_, tile_, max_queries_),
                                arena.array<float>(std::int64_t{max_queries_} * shape_.value_width),
                                arena.array<RowRef>(kSplitRows)};
  }

  std::int64_t most_splits() const {
    std::int64_t splits = 0;
    for (std::int64_t i = 0; i < task_count_; ++i) splits = std::max(splits, tasks_[i].splits());
    return splits;
  }

  // Enough tasks for all threads, or nothing else to share out: each works through its splits and merges as
  // it goes.
  void run_tasks() {
    AttendState* totals =
        compute_.arena.array<AttendState>(std::int64_t{max_queries_} * compute_.pool.size());
    compute_.pool.deal(task_count_, [&](std::int64_t i, int w) {
      Worker& worker = workers_[w];
      AttendState* total = totals + std::int64_t{max_queries_} * w;
      const Task& task = tasks_[task_count_ - 1 - i];  // later tokens see more rows
      start(task, total, nullptr);
      attend_split(task, 0, total, worker);  // every token sees some of its rows
      for (std::int64_t split = 1; split < task.splits(); ++split) {
        start(task, worker.tiles.states, worker.part_out);
        attend_split(task, split, worker.tiles.states, worker);
        for (int query = 0; query < task.queries(); ++query) merge(total[query], worker.tiles.states[query]);
      }
      for (int query = 0; query < task.queries(); ++query) finish(total[query]);
    });
  }

  // Few tasks: the splits are shared out, their states kept, and merged in order afterwards.
  void run_splits() {
    const std::int64_t splits = most_splits();
    const std::int64_t parts = task_count_ * splits * max_queries_;
    AttendState* states = compute_.arena.array<AttendState>(parts);
    float* outs = compute_.arena.array<float>(parts * shape_.value_width);
    compute_.pool.deal(task_count_ * splits, [&](std::int64_t i, int w) {
      const Task& task = tasks_[i / splits];
      if (i % splits >= task.splits()) return;
      start(task, states + i * max_queries_, outs + i * max_queries_ * shape_.value_width);
      attend_split(task, i % splits, states + i * max_queries_, workers_[w]);
    });
    compute_.pool.split(task_count_ * max_queries_, 1, [&](WorkRange range, int) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Task& task = tasks_[i / max_queries_];
        const int query = static_cast<int>(i % max_queries_);
        if (query >= task.queries()) continue;
        AttendState total = start_softmax(out_of(task, query), shape_.value_width);
        for (std::int64_t split = 0; split < task.splits(); ++split)
          merge(total, states[(i / max_queries_ * splits + split) * max_queries_ + query]);
        finish(total);
      }
    });
  }

  float* out_of(const Task& task, int query) const {
    return out_.row(task.row(query)) + std::int64_t{task.head(query)} * shape_.value_width;
  }

  // States at zero rows; `outs` null: directly in the output.
  void start(const Task& task, AttendState* states, float* outs) const {
    for (int query = 0; query < task.queries(); ++query)
      new (states + query) AttendState(start_softmax(
          outs ? outs + std::int64_t{query} * shape_.value_width : out_of(task, query), shape_.value_width));
  }

  void prepare_queries(const Task& task, Worker& worker) const {
    for (int query = 0; query < task.queries(); ++query)
      worker.tiles.prepare_query(compute_, tile_, query,
                                 q_.row(task.row(query)) + std::int64_t{task.head(query)} * shape_.key_width);
  }

  void attend_split(const Task& task, std::int64_t split, AttendState* states, Worker& worker) const {
    const Kernels& k = compute_.kernels;
    prepare_queries(task, worker);
    const std::int64_t first_position = task.run->first_position + task.first_token - task.run->begin;
    const std::int64_t end = std::min((split + 1) * kSplitRows, first_position + task.tokens);
    AttendTile tile = worker.tiles.tile(compute_, tile_, 0, task.queries());
    tile.states = states;
    const std::int64_t begin = split * kSplitRows;
    for (std::int64_t row = begin; row < end; ++row)
      worker.rows[row - begin] = task.run->cache->row(store_.id, row);
    TileRows load{store_.row, tile.arithmetic};
    load.key_first = shape_.key_first + task.kv_head * shape_.key_width;
    load.key_width = shape_.key_width;
    load.value_first = shape_.value_first + task.kv_head * shape_.value_width;
    load.value_width = shape_.value_width;
    load.keys = worker.tiles.keys;
    load.values = worker.tiles.values;
    fetch(load, worker.rows, std::min<std::int64_t>(kTileRows, end - begin));
    for (std::int64_t row = begin; row < end; row += kTileRows) {
      load.rows = worker.rows + (row - begin);
      load.count = static_cast<int>(std::min<std::int64_t>(kTileRows, end - row));
      fetch(load, load.rows + load.count, std::min<std::int64_t>(kTileRows, end - row - load.count));
      tile.values = k.load_tile(load);
      for (int query = 0; query < tile.queries; ++query)
        worker.tiles.valid[query] = static_cast<int>(
            std::clamp<std::int64_t>(first_position + query / task.heads + 1 - row, 0, kTileRows));
      k.attend(tile);
    }
  }

  // The keys and the values of `count` rows: channels in both are asked for once.
  void fetch(const TileRows& load, const RowRef* rows, std::int64_t count) const {
    const RowLayout layout = row_layout(store_.row);
    fetch_rows(layout, rows, static_cast<int>(count), load.key_first, load.key_width);
    if (load.value_first >= load.key_first + load.key_width)
      fetch_rows(layout, rows, static_cast<int>(count), load.value_first, load.value_width);
  }

  void merge(AttendState& total, const AttendState& part) const {
    merge_softmax(compute_.kernels, total, part, shape_.value_width);
  }

  void finish(const AttendState& total) const {
    finish_softmax(compute_.kernels, total, nullptr, shape_.value_width);
  }

  Compute& compute_;
  const TokenBatch& batch_;
  const Store& store_;
  const DenseShape& shape_;
  const MatrixView<const float> q_;
  const MatrixView<float> out_;
  const TileShape tile_;
  int tokens_per_task_ = 1, heads_per_task_ = 1, max_queries_ = 1;
  Task* tasks_ = nullptr;
  std::int64_t task_count_ = 0;
  Worker* workers_ = nullptr;
};

}  // namespace

void dense_attend(Compute& compute, const TokenBatch& batch, int layer, const Store& store,
                  const DenseShape& shape, MatrixView<const float> q, MatrixView<float> out) {
  const PartScope part(compute.profile, StepPart::kCacheReads);
  Arena::Scope scope(compute.arena);
  DenseAttention(compute, batch, store, shape, q, out).run();
  for (const FlatRun& run : batch.runs) {
    // Token i of the run reads the rows 0 .. first_position + i.
    const std::int64_t rows = run.count * run.first_position + run.count * (run.count + 1) / 2;
    run.cache->ledger().read(layer, store.id, rows);
    if (compute.profile)
      compute.profile->count(
          0, 2.0 * static_cast<double>(rows) * shape.heads * (shape.key_width + shape.value_width));
  }
}

}  // namespace seekline
