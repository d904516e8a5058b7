#include "engine/truncation.h"

#include <cmath>

#include "formats/rows.h"

namespace seekline {
namespace {

// Rows of one query, decoded: keys and values are channels of them.
struct Candidates {
  std::vector<std::vector<float>> rows;
  std::vector<bool> kept;

  void add(const RowFormat& format, const RowRef& row, bool keep) {
    rows.emplace_back(static_cast<std::size_t>(format.width));
    decode_row(format, row.data, row.scale, rows.back().data());
    kept.push_back(keep);
  }
};

// All finished rows of the store, those of the selection marked, then the window.
Candidates candidates_of(const AttentionView& view, std::int64_t token) {
  const TokenBatch& batch = *view.batch;
  const GatherQuery& query = view.queries[static_cast<std::size_t>(token)];
  const SequenceCache& cache = *batch.run(token).cache;
  Candidates out;
  const std::int64_t eligible = (batch.position[token] + 1) / view.store->tokens_per_row;
  int next = 0;  // the selection is ascending: it is met in order
  for (std::int64_t i = 0; i < eligible; ++i) {
    const RowRef row = cache.row(view.store->id, i);
    const bool keep = next < query.segments[0].count && query.segments[0].rows[next].data == row.data;
    if (keep) ++next;
    out.add(view.store->row, row, keep);
  }
  for (int i = 0; i < query.segments[1].count; ++i)
    out.add(*query.segments[1].format, query.segments[1].rows[i], true);
  return out;
}

struct Sums {
  double mass = 0;
  std::vector<double> out;

  explicit Sums(int width) : out(static_cast<std::size_t>(width), 0.0) {}
  void add(double weight, const float* value) {
    mass += weight;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += weight * static_cast<double>(value[i]);
  }
};

double norm_of(const float* v, int n) {
  double squares = 0;
  for (int i = 0; i < n; ++i) squares += static_cast<double>(v[i]) * static_cast<double>(v[i]);
  return std::sqrt(squares);
}

// One head over its candidates; `q` and the engine's `out` are those of the head.
Truncation measure(const GatherShape& shape, const Candidates& candidates, int head, const float* q,
                   const float* out) {
  const int kv_head = head / (shape.heads / shape.kv_heads);
  const int key = shape.key_first + kv_head * shape.key_width,
            value = shape.value_first + kv_head * shape.value_width;
  std::vector<double> scores;
  double max = shape.sinks ? static_cast<double>(shape.sinks[head]) : -INFINITY;
  for (const std::vector<float>& row : candidates.rows) {
    const float* k = row.data() + key;
    double score = 0;
    for (int i = 0; i < shape.key_width; ++i) score += static_cast<double>(q[i]) * static_cast<double>(k[i]);
    scores.push_back(score * static_cast<double>(shape.scale));
    max = std::max(max, scores.back());
  }
  Sums kept(shape.value_width), rest(shape.value_width);
  double largest = 0;
  if (shape.sinks) kept.mass = std::exp(static_cast<double>(shape.sinks[head]) - max);  // a value of zero
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const float* v = candidates.rows[i].data() + value;
    largest = std::max(largest, norm_of(v, shape.value_width));
    (candidates.kept[i] ? kept : rest).add(std::exp(scores[i] - max), v);
  }
  Truncation t;
  t.head = head;
  const double all = kept.mass + rest.mass;
  t.omitted = rest.mass / all;
  t.bound = 2 * t.omitted * largest;
  double change = 0, rest_change = 0, error = 0;
  for (std::size_t i = 0; i < kept.out.size(); ++i) {
    const double o_kept = kept.mass > 0 ? kept.out[i] / kept.mass : 0;
    const double o_rest = rest.mass > 0 ? rest.out[i] / rest.mass : o_kept;
    const double o = (kept.out[i] + rest.out[i]) / all;
    change += (o - o_kept) * (o - o_kept);
    rest_change += (o_rest - o_kept) * (o_rest - o_kept);
    error += (static_cast<double>(out[i]) - o_kept) * (static_cast<double>(out[i]) - o_kept);
  }
  t.change = std::sqrt(change);
  t.rest_change = t.omitted * std::sqrt(rest_change);
  t.engine_error = std::sqrt(error);
  return t;
}

}  // namespace

void TruncationProbe::attention(const AttentionView& view) {
  const GatherShape& shape = *view.shape;
  for (std::int64_t token = 0; token < view.batch->count; ++token) {
    if (view.batch->position[token] < first_position_) continue;
    const Candidates candidates = candidates_of(view, token);
    const GatherQuery& query = view.queries[static_cast<std::size_t>(token)];
    for (int head = 0; head < shape.heads; ++head) {
      Truncation t =
          measure(shape, candidates, head, view.q.row(token) + std::int64_t{head} * shape.key_width,
                  query.out + std::int64_t{head} * shape.value_width);
      t.layer = view.layer;
      t.position = view.batch->position[token];
      t.eligible = (t.position + 1) / view.store->tokens_per_row;
      t.selected = query.segments[0].count;
      found_.push_back(t);
    }
  }
}

}  // namespace seekline
