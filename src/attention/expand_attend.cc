#include "attention/expand_attend.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "attention/dense_attend.h"
#include "attention/softmax_state.h"
#include "attention/tile_scratch.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

constexpr int kTokensPerTask = 64;
// Expanded keys and values that are held at once; heads are worked on in groups that fit.
constexpr std::int64_t kExpandedFloats = std::int64_t{1} << 22;

struct Worker {
  TileScratch tiles;
  float* part_out;
  float* key_rows;  // [kTileRows, nope + rope]
  RowRef* refs;     // [kTileRows]
};

// One split of a block's rows for some heads: what the tasks of a stage read.
struct Expanded {
  std::int64_t first_row;  // in the block's list
  int rows;
  int first_head, heads;
  MatrixView<float> pairs;   // [rows, heads * (nope + value)]
  MatrixView<float> rotary;  // [rows, rope]
};

class ExpandAttention {
 public:
  ExpandAttention(Compute& compute, const LatentHeads& heads, float scale, const RowFormat& format,
                  MatrixView<const float> q, MatrixView<float> out)
      : compute_(compute),
        heads_(heads),
        tile_{heads.key_width(), heads.value, scale},
        format_(format),
        q_(q),
        out_(out),
        arithmetic_(compute.settings.arithmetic),
        states_(compute.arena.array<AttendState>(q.rows * heads.heads)) {
    make_workers();
    for (std::int64_t t = 0; t < q.rows; ++t)
      for (int h = 0; h < heads.heads; ++h)
        new (&state(t, h))
            AttendState(start_softmax(out.row(t) + std::int64_t{h} * heads.value, heads.value));
  }

  void run(const ExpandBlock& block) {
    for (std::int64_t first = 0; first < block.count; first += kSplitRows) {
      Arena::Scope scope(compute_.arena);
      const std::int64_t rows = std::min(kSplitRows, block.count - first);
      const MatrixView<float> latents = compute_.arena.matrix(rows, heads_.latent);
      const MatrixView<float> rotary = compute_.arena.matrix(rows, heads_.rope);
      decode(block.rows + first, latents, rotary);
      const PreparedRows prepared =
          prepare_rows(compute_, heads_.kv_b.kind, arithmetic_, BlockQuantizer::kNone, latents);
      const int together = static_cast<int>(
          std::clamp<std::int64_t>(kExpandedFloats / (rows * heads_.head_rows()), 1, heads_.heads));
      for (int head = 0; head < heads_.heads; head += together) {
        Arena::Scope heads_scope(compute_.arena);
        const int count = std::min(together, heads_.heads - head);
        attend(block, {first, static_cast<int>(rows), head, count, expand(prepared, head, count), rotary});
      }
    }
    compute_.pool.split(block.tokens * heads_.heads, 16, [&](WorkRange range, int) {
      for (std::int64_t i = range.begin; i < range.end; ++i)
        finish_softmax(compute_.kernels,
                       state(block.first_token + i / heads_.heads, static_cast<int>(i % heads_.heads)),
                       nullptr, heads_.value);
    });
  }

 private:
  AttendState& state(std::int64_t token, int head) const { return states_[token * heads_.heads + head]; }

  void make_workers() {
    Arena& arena = compute_.arena;
    workers_ = arena.array<Worker>(compute_.pool.size());
    for (int w = 0; w < compute_.pool.size(); ++w)
      new (workers_ + w) Worker{TileScratch(compute_, tile_, kTokensPerTask),
                                arena.array<float>(std::int64_t{kTokensPerTask} * heads_.value),
                                arena.array<float>(std::int64_t{kTileRows} * heads_.key_width()),
                                arena.array<RowRef>(kTileRows)};
  }

  void decode(const RowRef* rows, MatrixView<float> latents, MatrixView<float> rotary) const {
    Arena::Scope scope(compute_.arena);
    MatrixView<float> whole = compute_.arena.matrix(compute_.pool.size(), heads_.latent_width());
    compute_.pool.split(latents.rows, 16, [&](WorkRange range, int worker) {
      float* row = whole.row(worker);
      for (std::int64_t r = range.begin; r < range.end; ++r) {
        compute_.kernels.decode_row(format_, rows[r].data, rows[r].scale, row);
        std::copy_n(row, heads_.latent, latents.row(r));
        std::copy_n(row + heads_.latent, heads_.rope, rotary.row(r));
      }
    });
  }

  // kv_b's rows of `count` heads times all latents of the split. A product writes y[row of the weight]: the
  // first head's rows begin that far above the output, so that much room lies in front of it.
  MatrixView<float> expand(const PreparedRows& latents, int head, int count) const {
    const Kernels& k = compute_.kernels;
    const std::int64_t first = head * heads_.head_rows(), width = count * heads_.head_rows();
    const MatrixView<float> out(compute_.arena.array<float>(first + latents.count * width) + first,
                                latents.count, width);
    float** y = compute_.arena.array<float*>(latents.count);
    for (std::int64_t r = 0; r < latents.count; ++r) y[r] = out.row(r) - first;
    const std::int64_t scratch_bytes = whole_lines(k.matmul_scratch_bytes(heads_.latent));
    std::uint8_t* scratch = compute_.arena.bytes(scratch_bytes * compute_.pool.size());
    compute_.pool.split(width, 16, [&](WorkRange range, int worker) {
      Matmul m;
      m.w = heads_.kv_b;
      m.arithmetic = arithmetic_;
      m.row_begin = first + range.begin;
      m.row_end = first + range.end;
      m.x = latents.rows;
      m.y = y;
      m.tokens = latents.count;
      m.scratch = scratch + scratch_bytes * worker;
      k.matmul(m);
    });
    return out;
  }

  // Every (64 tokens, head) over the rows of the split, added to the states.
  void attend(const ExpandBlock& block, const Expanded& e) const {
    const std::int64_t token_tasks = (block.tokens + kTokensPerTask - 1) / kTokensPerTask;
    const std::int64_t tasks = token_tasks * e.heads;
    compute_.pool.deal(tasks, [&](std::int64_t item, int w) {
      const std::int64_t i = tasks - 1 - item;  // later tokens see more rows
      const std::int64_t first = i / e.heads * kTokensPerTask;
      attend_task(block, e, first,
                  static_cast<int>(std::min<std::int64_t>(kTokensPerTask, block.tokens - first)),
                  static_cast<int>(i % e.heads), workers_[w]);
    });
  }

  void attend_task(const ExpandBlock& block, const Expanded& e, std::int64_t first_token, int tokens,
                   int head, Worker& w) const {
    const Kernels& k = compute_.kernels;
    const int whole_head = e.first_head + head;
    for (int t = 0; t < tokens; ++t) {
      w.tiles.prepare_query(
          compute_, tile_, t,
          q_.row(block.first_token + first_token + t) + std::int64_t{whole_head} * heads_.key_width());
      new (w.tiles.states + t)
          AttendState(start_softmax(w.part_out + std::int64_t{t} * heads_.value, heads_.value));
    }
    const AttendTile tile = w.tiles.tile(compute_, tile_, 0, tokens);
    for (int row = 0; row < e.rows; row += kTileRows) {
      bool seen = false;
      for (int t = 0; t < tokens; ++t) {
        const std::int64_t visible = std::min(block.count, block.first_visible + first_token + t);
        w.tiles.valid[t] = static_cast<int>(
            std::clamp<std::int64_t>(visible - e.first_row - row, 0, std::min(kTileRows, e.rows - row)));
        seen |= w.tiles.valid[t] > 0;
      }
      if (!seen) break;
      load_tile(e, row, std::min(kTileRows, e.rows - row), head, w);
      k.attend(tile);
    }
    for (int t = 0; t < tokens; ++t)
      merge_softmax(k, state(block.first_token + first_token + t, whole_head), w.tiles.states[t],
                    heads_.value);
  }

  void load_tile(const Expanded& e, int first, int rows, int head, const Worker& w) const {
    const RowFormat key{RowKind::kF32, heads_.key_width()}, value{RowKind::kF32, heads_.value};
    for (int r = 0; r < rows; ++r) {
      float* to = w.key_rows + std::int64_t{r} * heads_.key_width();
      std::copy_n(e.pairs.row(first + r) + head * heads_.head_rows(), heads_.nope, to);
      std::copy_n(e.rotary.row(first + r), heads_.rope, to + heads_.nope);
      w.refs[r] = {reinterpret_cast<const std::uint8_t*>(to), nullptr};
    }
    TileRows keys{key, arithmetic_, w.refs, rows};
    keys.key_width = heads_.key_width();
    keys.keys = w.tiles.keys;
    compute_.kernels.load_tile(keys);
    for (int r = 0; r < rows; ++r) {
      const float* from = e.pairs.row(first + r) + head * heads_.head_rows() + heads_.nope;
      w.refs[r] = {reinterpret_cast<const std::uint8_t*>(from), nullptr};
    }
    TileRows values{value, arithmetic_, w.refs, rows};
    values.value_width = heads_.value;
    values.values = w.tiles.values;
    compute_.kernels.load_tile(values);
  }

  Compute& compute_;
  const LatentHeads& heads_;
  const TileShape tile_;
  const RowFormat& format_;
  const MatrixView<const float> q_;
  const MatrixView<float> out_;
  const Arithmetic arithmetic_;
  AttendState* states_;
  Worker* workers_ = nullptr;
};

}  // namespace

void expand_attend(Compute& compute, const LatentHeads& heads, float scale, const RowFormat& format,
                   std::span<const ExpandBlock> blocks, MatrixView<const float> q, MatrixView<float> out) {
  Arena::Scope scope(compute.arena);
  const PartScope part(compute.profile, StepPart::kCacheReads);
  ExpandAttention attention(compute, heads, scale, format, q, out);
  for (const ExpandBlock& block : blocks) attention.run(block);
}

}  // namespace seekline
