#include "attention/dense_attend.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <new>

#include "attention/gather_attend.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

constexpr int kQueriesPerTask = 64;

std::int64_t align64(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Queries that share rows: a block of tokens of one run, one KV head.
struct Task {
  const FlatRun* run;
  std::int64_t first_token;  // flat row
  int tokens;
  int kv_head;

  std::int64_t splits() const {
    const std::int64_t rows = run->first_position + first_token - run->begin + tokens;
    return (rows + kSplitRows - 1) / kSplitRows;
  }
};

struct Worker {
  std::uint8_t* keys;
  std::uint8_t* values;
  RowRef* rows;
  std::uint8_t* queries;
  const std::uint8_t** q;
  int* valid;
  std::uint8_t* scratch;
  AttendState* part;  // states of the split at work
  float* part_out;
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
        query_bytes_(align64(compute.kernels.query_bytes(compute.settings.arithmetic, shape.key_width))) {
    tokens_per_task_ = std::max(1, kQueriesPerTask / shape.group());
    max_queries_ = tokens_per_task_ * shape.group();
    make_tasks();
    make_workers();
  }

  void run() {
    if (task_count_ >= 2 * compute_.pool.size()) {
      run_tasks();
    } else {
      run_splits();
    }
  }

 private:
  void make_tasks() {
    std::int64_t count = 0;
    for (const FlatRun& run : batch_.runs)
      count += (run.count + tokens_per_task_ - 1) / tokens_per_task_ * shape_.kv_heads;
    tasks_ = compute_.arena.array<Task>(count);
    for (const FlatRun& run : batch_.runs)
      for (std::int64_t t = 0; t < run.count; t += tokens_per_task_)
        for (int head = 0; head < shape_.kv_heads; ++head)
          new (tasks_ + task_count_++)
              Task{&run, run.begin + t,
                   static_cast<int>(std::min<std::int64_t>(tokens_per_task_, run.count - t)), head};
  }

  void make_workers() {
    const Kernels& k = compute_.kernels;
    Arena& arena = compute_.arena;
    workers_ = arena.array<Worker>(compute_.pool.size());
    for (int w = 0; w < compute_.pool.size(); ++w) {
      Worker& worker = workers_[w];
      worker.keys = arena.bytes(k.tile_bytes(compute_.settings.arithmetic, shape_.key_width));
      worker.values = arena.bytes(k.tile_bytes(compute_.settings.arithmetic, shape_.value_width));
      worker.rows = arena.array<RowRef>(kTileRows);
      worker.queries = arena.bytes(query_bytes_ * max_queries_);
      worker.q = arena.array<const std::uint8_t*>(max_queries_);
      worker.valid = arena.array<int>(max_queries_);
      worker.scratch = arena.bytes(k.attend_scratch_bytes(max_queries_));
      worker.part = arena.array<AttendState>(max_queries_);
      worker.part_out = arena.array<float>(std::int64_t{max_queries_} * shape_.value_width);
    }
  }

  // Enough tasks for all threads: each works through its splits and merges as it goes.
  void run_tasks() {
    AttendState* totals =
        compute_.arena.array<AttendState>(std::int64_t{max_queries_} * compute_.pool.size());
    compute_.pool.split(task_count_, 1, [&](WorkRange range, int w) {
      Worker& worker = workers_[w];
      AttendState* total = totals + std::int64_t{max_queries_} * w;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Task& task = tasks_[i];
        start(task, total, nullptr);
        for (std::int64_t split = 0; split < task.splits(); ++split) {
          start(task, worker.part, worker.part_out);
          attend_split(task, split, worker.part, worker);
          for (int query = 0; query < queries(task); ++query) merge(total[query], worker.part[query]);
        }
        finish(task, total);
      }
    });
  }

  // Few tasks: the splits are shared out, their states kept, and merged in order afterwards.
  void run_splits() {
    std::int64_t splits = 0;
    for (std::int64_t i = 0; i < task_count_; ++i) splits = std::max(splits, tasks_[i].splits());
    const std::int64_t parts = task_count_ * splits * max_queries_;
    AttendState* states = compute_.arena.array<AttendState>(parts);
    float* outs = compute_.arena.array<float>(parts * shape_.value_width);
    compute_.pool.split(task_count_ * splits, 1, [&](WorkRange range, int w) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const Task& task = tasks_[i / splits];
        if (i % splits >= task.splits()) continue;
        start(task, states + i * max_queries_, outs + i * max_queries_ * shape_.value_width);
        attend_split(task, i % splits, states + i * max_queries_, workers_[w]);
      }
    });
    AttendState* totals = compute_.arena.array<AttendState>(task_count_ * max_queries_);
    compute_.pool.split(task_count_, 1, [&](WorkRange range, int) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        AttendState* total = totals + i * max_queries_;
        start(tasks_[i], total, nullptr);
        for (std::int64_t split = 0; split < tasks_[i].splits(); ++split)
          for (int query = 0; query < queries(tasks_[i]); ++query)
            merge(total[query], states[(i * splits + split) * max_queries_ + query]);
        finish(tasks_[i], total);
      }
    });
  }

  int queries(const Task& task) const { return task.tokens * shape_.group(); }

  float* out_of(const Task& task, int query) const {
    const int head = task.kv_head * shape_.group() + query % shape_.group();
    return out_.row(task.first_token + query / shape_.group()) + std::int64_t{head} * shape_.value_width;
  }

  // States at zero rows; `outs` null: directly in the output.
  void start(const Task& task, AttendState* states, float* outs) const {
    for (int query = 0; query < queries(task); ++query) {
      float* out = outs ? outs + std::int64_t{query} * shape_.value_width : out_of(task, query);
      std::memset(out, 0, static_cast<std::size_t>(shape_.value_width) * sizeof(float));
      new (states + query) AttendState{-std::numeric_limits<float>::infinity(), 0.0f, out};
    }
  }

  void prepare_queries(const Task& task, Worker& worker) const {
    for (int query = 0; query < queries(task); ++query) {
      const int head = task.kv_head * shape_.group() + query % shape_.group();
      std::uint8_t* to = worker.queries + query * query_bytes_;
      compute_.kernels.prepare_query(
          compute_.settings.arithmetic,
          q_.row(task.first_token + query / shape_.group()) + std::int64_t{head} * shape_.key_width,
          shape_.key_width, to);
      worker.q[query] = to;
    }
  }

  void attend_split(const Task& task, std::int64_t split, AttendState* states, Worker& worker) const {
    const Kernels& k = compute_.kernels;
    const Arithmetic arithmetic = compute_.settings.arithmetic;
    prepare_queries(task, worker);
    const std::int64_t first_position = task.run->first_position + task.first_token - task.run->begin;
    const std::int64_t end = std::min((split + 1) * kSplitRows, first_position + task.tokens);
    AttendTile tile;
    tile.arithmetic = arithmetic;
    tile.keys = worker.keys;
    tile.values = worker.values;
    tile.key_width = shape_.key_width;
    tile.value_width = shape_.value_width;
    tile.scale = shape_.scale;
    tile.queries = queries(task);
    tile.q = worker.q;
    tile.valid = worker.valid;
    tile.states = states;
    tile.scratch = worker.scratch;
    for (std::int64_t row = split * kSplitRows; row < end; row += kTileRows) {
      const int rows = static_cast<int>(std::min<std::int64_t>(kTileRows, end - row));
      for (int i = 0; i < rows; ++i) worker.rows[i] = task.run->cache->row(store_.id, row + i);
      k.load_keys(store_.row, arithmetic, worker.rows, rows,
                  shape_.key_first + task.kv_head * shape_.key_width, shape_.key_width, worker.keys);
      k.load_values(store_.row, arithmetic, worker.rows, rows,
                    shape_.value_first + task.kv_head * shape_.value_width, shape_.value_width,
                    worker.values);
      for (int query = 0; query < tile.queries; ++query)
        worker.valid[query] = static_cast<int>(
            std::clamp<std::int64_t>(first_position + query / shape_.group() + 1 - row, 0, kTileRows));
      k.attend(tile);
    }
  }

  void merge(AttendState& total, const AttendState& part) const {
    if (part.sum == 0) return;
    if (total.sum == 0) {
      total.max = part.max;
      total.sum = part.sum;
      std::memcpy(total.out, part.out, static_cast<std::size_t>(shape_.value_width) * sizeof(float));
      return;
    }
    const float max = std::max(total.max, part.max);
    float factor[2] = {total.max - max, part.max - max};
    compute_.kernels.exp(factor, 2, factor);
    for (int i = 0; i < shape_.value_width; ++i)
      total.out[i] = total.out[i] * factor[0] + part.out[i] * factor[1];
    total.sum = total.sum * factor[0] + part.sum * factor[1];
    total.max = max;
  }

  void finish(const Task& task, AttendState* totals) const {
    for (int query = 0; query < queries(task); ++query)
      finish_softmax(compute_.kernels, totals[query], nullptr, shape_.value_width);
  }

  Compute& compute_;
  const TokenBatch& batch_;
  const Store& store_;
  const DenseShape& shape_;
  const MatrixView<const float> q_;
  const MatrixView<float> out_;
  const std::int64_t query_bytes_;
  int tokens_per_task_ = 1, max_queries_ = 1;
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
