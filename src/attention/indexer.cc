#include "attention/indexer.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "attention/select.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

// Scores of one group of tokens are kept at once; more tokens are worked off group by group.
constexpr std::int64_t kScoreFloats = std::int64_t{1} << 22;
// Rows that one task scores; a multiple of every page.
constexpr std::int64_t kTaskRows = 1024;
// Scores from which on all threads select from one token's.
constexpr std::int64_t kSharedScores = 16384;

class IndexScan {
 public:
  IndexScan(Compute& compute, const TokenBatch& batch, const IndexRequest& request)
      : compute_(compute),
        batch_(batch),
        request_(request),
        query_bytes_(whole_lines(compute.kernels.index_query_bytes(request.keys->row, request.heads))),
        queries_(compute.arena.bytes(query_bytes_ * batch.count)),
        scored_(compute.arena.array<std::int64_t>(batch.count)) {
    for_rows(compute, batch.count, [&](std::int64_t r) {
      compute.kernels.prepare_index_query(request.keys->row, request.queries.row(r), request.heads,
                                          queries_ + r * query_bytes_);
    });
    if (request.within)
      gathered_ = compute.arena.bytes(compute.pool.size() * kTaskRows *
                                      (request.keys->row.data_bytes() + request.keys->row.scale_bytes()));
    for (std::int64_t r = 0; r < batch.count; ++r) {
      scored_[r] = request.within ? pooled_rows(r) : eligible(r);
      widest_ = std::max(widest_, scored_[r]);
    }
  }

  std::int64_t eligible(std::int64_t row) const {
    return (batch_.position[row] + 1) / request_.keys->tokens_per_row;
  }
  std::int64_t scored(std::int64_t row) const { return scored_[row]; }
  std::int64_t widest() const { return widest_; }

  // Scores [first, last) of the list that token `row` scores: all eligible rows, or those of its pool in
  // order, at most kTaskRows.
  void score(std::int64_t row, std::int64_t first, std::int64_t last, float* out, int worker) const {
    request_.within ? score_pool(row, first, last, out, worker) : score_rows(row, first, last, out);
  }

  // The store's row behind entry `i` of the scored list.
  std::int32_t store_row(std::int64_t row, std::int64_t i) const {
    if (!request_.within) return static_cast<std::int32_t>(i);
    const std::int64_t block_rows = request_.pool_block_rows;
    return static_cast<std::int32_t>(request_.within->list(row)[i / block_rows] * block_rows +
                                     i % block_rows);
  }

  void count_reads() const {
    for (std::int64_t r = 0; r < batch_.count; ++r)
      batch_.run(r).cache->ledger().read(request_.layer, request_.keys->id, scored_[r]);
    if (!compute_.profile) return;
    double rows = 0;
    for (std::int64_t r = 0; r < batch_.count; ++r) rows += static_cast<double>(scored_[r]);
    compute_.profile->count(0, 2 * rows * request_.heads * request_.keys->row.width);
  }

 private:
  // Only the newest block, always in the pool and last in it, can be partly filled.
  std::int64_t pooled_rows(std::int64_t row) const {
    const std::int64_t blocks = request_.within->counts[row];
    if (blocks == 0) return 0;
    const std::int64_t newest =
        request_.within->list(row)[blocks - 1] * std::int64_t{request_.pool_block_rows};
    return (blocks - 1) * request_.pool_block_rows +
           std::min<std::int64_t>(request_.pool_block_rows, eligible(row) - newest);
  }

  IndexScores request_for(std::int64_t row) const {
    IndexScores args;
    args.format = request_.keys->row;
    args.q = queries_ + row * query_bytes_;
    args.weights = request_.weights.row(row);
    args.heads = request_.heads;
    return args;
  }

  void score_rows(std::int64_t row, std::int64_t first, std::int64_t last, float* out) const {
    IndexScores args = request_for(row);
    const SequenceCache& cache = *batch_.run(row).cache;
    while (first < last) {
      const PageRows page = cache.page_rows(request_.keys->id, first, last - first);
      args.data = page.data;
      args.scale = page.scale;
      args.rows = page.rows;
      args.scores = out;
      compute_.kernels.index_scores(args);
      first += page.rows;
      out += page.rows;
    }
  }

  // Blocks are shorter than what kernels take at once: their keys are put together first.
  void score_pool(std::int64_t row, std::int64_t first, std::int64_t last, float* out, int worker) const {
    const RowFormat& format = request_.keys->row;
    const std::int64_t block_rows = request_.pool_block_rows, data_bytes = format.data_bytes(),
                       scale_bytes = format.scale_bytes();
    std::uint8_t* data = gathered_ + worker * kTaskRows * (data_bytes + scale_bytes);
    std::uint8_t* scale = data + kTaskRows * data_bytes;
    const SequenceCache& cache = *batch_.run(row).cache;
    const std::int64_t rows = last - first;
    for (std::int64_t done = 0; done < rows;) {
      const std::int64_t entry = first + done, within = entry % block_rows;
      const std::int64_t start = request_.within->list(row)[entry / block_rows] * block_rows + within;
      const PageRows page =
          cache.page_rows(request_.keys->id, start, std::min(rows - done, block_rows - within));
      std::memcpy(data + done * data_bytes, page.data, static_cast<std::size_t>(page.rows * data_bytes));
      if (scale_bytes > 0)
        std::memcpy(scale + done * scale_bytes, page.scale,
                    static_cast<std::size_t>(page.rows * scale_bytes));
      done += page.rows;
    }
    IndexScores args = request_for(row);
    args.data = data;
    args.scale = scale;
    args.rows = rows;
    args.scores = out;
    compute_.kernels.index_scores(args);
  }

  Compute& compute_;
  const TokenBatch& batch_;
  const IndexRequest& request_;
  const std::int64_t query_bytes_;
  std::uint8_t* queries_;
  std::int64_t* scored_;
  std::uint8_t* gathered_ = nullptr;  // kTaskRows keys a worker
  std::int64_t widest_ = 0;
};

// The best blocks by their largest score; the block of the newest row is always in. Ties: lower block.
std::int64_t select_blocks(const float* scores, std::int64_t n, int block_rows, std::int64_t capacity,
                           float* block_scores, std::int32_t* out) {
  const std::int64_t blocks = (n + block_rows - 1) / block_rows;
  for (std::int64_t b = 0; b < blocks; ++b)
    block_scores[b] = *std::max_element(scores + b * block_rows, scores + std::min(n, (b + 1) * block_rows));
  if (blocks > 0) block_scores[blocks - 1] = std::numeric_limits<float>::infinity();
  return select_top_k(block_scores, blocks, capacity, out);
}

}  // namespace

Selection new_selection(Arena& arena, std::int64_t tokens, std::int64_t capacity) {
  return {arena.array<std::int32_t>(tokens * capacity), arena.array<std::int32_t>(tokens), capacity};
}

void select_rows(Compute& compute, const TokenBatch& batch, const IndexRequest& request) {
  const PartScope part(compute.profile, StepPart::kIndexScan);
  Arena::Scope scope(compute.arena);
  const IndexScan scan(compute, batch, request);
  const std::int64_t width = std::max<std::int64_t>(1, scan.widest());
  const std::int64_t group = std::clamp<std::int64_t>(kScoreFloats / width, 1, batch.count);
  MatrixView<float> scores = compute.arena.matrix(group, width);
  MatrixView<float> blocks =
      compute.arena.matrix(compute.pool.size(), request.pool ? width / request.pool_block_rows + 1 : 1);
  std::int32_t* candidates = compute.arena.array<std::int32_t>(compute.pool.size() * width);
  const std::int64_t tasks = (width + kTaskRows - 1) / kTaskRows;
  for (std::int64_t begin = 0; begin < batch.count; begin += group) {
    const std::int64_t tokens = std::min(group, batch.count - begin);
    compute.pool.split(tokens * tasks, 1, [&](WorkRange range, int worker) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t row = begin + i / tasks;
        const std::int64_t first = i % tasks * kTaskRows;
        const std::int64_t last = std::min(first + kTaskRows, scan.scored(row));
        if (first < last) scan.score(row, first, last, scores.row(i / tasks) + first, worker);
      }
    });
    const auto best = [&](std::int64_t i) {
      return request.rows->items + (begin + i) * request.rows->capacity;
    };
    const auto finish = [&](std::int64_t i, std::int64_t found, int worker) {
      const std::int64_t row = begin + i;
      for (std::int64_t j = 0; j < found; ++j) best(i)[j] = scan.store_row(row, best(i)[j]);
      request.rows->counts[row] = static_cast<std::int32_t>(found);
      if (request.pool)
        request.pool->counts[row] = static_cast<std::int32_t>(
            select_blocks(scores.row(i), scan.scored(row), request.pool_block_rows, request.pool->capacity,
                          blocks.row(worker), request.pool->items + row * request.pool->capacity));
    };
    if (tokens < compute.pool.size() && width >= kSharedScores) {
      for (std::int64_t i = 0; i < tokens; ++i)
        finish(i,
               select_top_k(compute.pool, compute.arena, scores.row(i), scan.scored(begin + i),
                            request.rows->capacity, best(i), candidates),
               0);
      continue;
    }
    compute.pool.split(tokens, 1, [&](WorkRange range, int worker) {
      for (std::int64_t i = range.begin; i < range.end; ++i)
        finish(i,
               select_top_k(scores.row(i), scan.scored(begin + i), request.rows->capacity, best(i),
                            candidates + worker * width),
               worker);
    });
  }
  scan.count_reads();
}

}  // namespace seekline
