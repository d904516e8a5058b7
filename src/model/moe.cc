#include "model/moe.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/mapped_file.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

// (token, expert) pairs worked on at once: bounds the hidden activations, whatever the batch.
constexpr std::int64_t kPairs = 2048;
// The same where the outputs of all pairs wait for their weights.
constexpr std::int64_t kWeighedPairs = 512;

struct Pair {
  std::int32_t token;
  float weight;
};

// Tokens of one expert: pairs [begin, end).
struct Segment {
  const ExpertWeights* expert;
  std::int64_t begin, end;
};

// Pairs sorted by expert, tokens ascending within one.
class PairList {
 public:
  PairList(Arena& arena, std::span<const ExpertWeights> experts, const Routing& routing) {
    const std::int64_t count = routing.tokens * routing.top;
    std::int64_t* begin = arena.array<std::int64_t>(static_cast<std::int64_t>(experts.size()) + 1);
    std::memset(begin, 0, (experts.size() + 1) * sizeof *begin);
    for (std::int64_t i = 0; i < count; ++i) ++begin[routing.experts[i] + 1];
    for (std::size_t e = 0; e < experts.size(); ++e) begin[e + 1] += begin[e];
    pairs = arena.array<Pair>(count);
    segments = arena.array<Segment>(static_cast<std::int64_t>(experts.size()));
    for (std::size_t e = 0; e < experts.size(); ++e)
      if (begin[e + 1] > begin[e])
        new (segments + segment_count++) Segment{&experts[e], begin[e], begin[e + 1]};
    for (std::int64_t i = 0; i < count; ++i)
      pairs[begin[routing.experts[i]]++] = {static_cast<std::int32_t>(i / routing.top), routing.weights[i]};
  }

  Pair* pairs = nullptr;
  Segment* segments = nullptr;
  std::int64_t segment_count = 0;
};

// Asks the disk for experts that are read soon. Weights of one expert lie together or nearly so.
void ask_for(std::span<const Segment> segments) {
  for (const Segment& segment : segments)
    for (const WeightView* w : {&segment.expert->w1, &segment.expert->w3, &segment.expert->w2}) {
      map_will_need(w->data, w->rows * w->row_bytes());
      map_will_need(w->scales, w->scale_bytes());
    }
}

// Runs consecutive segments: w1 and w3, SwiGLU, w2 added into y. One stage each.
class ExpertStage {
 public:
  ExpertStage(Compute& compute, const ExpertShape& shape, const PreparedRows& x, MatrixView<float> y)
      : compute_(compute), shape_(shape), x_(x), y_(y) {}

  void run(const Pair* pairs, std::span<const Segment> segments) {
    Arena::Scope scope(compute_.arena);
    const std::int64_t first = segments.front().begin;
    const std::int64_t count = segments.back().end - first;
    const std::int64_t width = segments.front().expert->w1.rows;
    MatrixView<float> gate = compute_.arena.matrix(count, width);
    MatrixView<float> up = compute_.arena.matrix(count, width);
    const std::uint8_t** inputs = compute_.arena.array<const std::uint8_t*>(count);
    float** outputs = compute_.arena.array<float*>(count);
    for (std::int64_t i = 0; i < count; ++i) {
      inputs[i] = x_.rows[pairs[first + i].token];
      outputs[i] = y_.row(pairs[first + i].token);
    }
    const std::int64_t n = static_cast<std::int64_t>(segments.size());
    Product* products = compute_.arena.array<Product>(2 * n);
    float* const* gate_rows = row_pointers(compute_, gate);
    float* const* up_rows = row_pointers(compute_, up);
    for (std::int64_t s = 0; s < n; ++s) {
      const Segment& segment = segments[static_cast<std::size_t>(s)];
      const std::int64_t at = segment.begin - first;
      const PreparedRows rows{inputs + at, segment.end - segment.begin, x_.cols, x_.kind, x_.arithmetic};
      new (products + 2 * s) Product{segment.expert->w1, rows, gate_rows + at};
      new (products + 2 * s + 1) Product{segment.expert->w3, rows, up_rows + at};
    }
    run_products(compute_, {products, static_cast<std::size_t>(2 * n)});

    for_rows(compute_, count, [&](std::int64_t i) {
      compute_.kernels.swiglu(gate.row(i), up.row(i), width, shape_.swiglu_limit,
                              shape_.weigh_output ? 1.0f : pairs[first + i].weight, gate.row(i));
    });
    MatrixView<float> apart;
    if (shape_.weigh_output) {
      apart = compute_.arena.matrix(count, y_.cols);
      for (std::int64_t i = 0; i < count; ++i) outputs[i] = apart.row(i);
    }
    const PreparedRows hidden =
        prepare_rows(compute_, segments.front().expert->w2.kind, x_.arithmetic, shape_.quantizer, gate);
    for (std::int64_t s = 0; s < n; ++s) {
      const Segment& segment = segments[static_cast<std::size_t>(s)];
      const std::int64_t at = segment.begin - first;
      new (products + s) Product{segment.expert->w2, hidden.slice(at, segment.end - segment.begin),
                                 outputs + at, !shape_.weigh_output};
    }
    run_products(compute_, {products, static_cast<std::size_t>(n)});
    if (shape_.weigh_output) add_weighed(pairs + first, apart);
  }

 private:
  // Cut by channels, so that every token's experts are added in order.
  void add_weighed(const Pair* pairs, MatrixView<const float> outputs) {
    compute_.pool.split(y_.cols, 64, [&](WorkRange range, int) {
      for (std::int64_t i = 0; i < outputs.rows; ++i)
        compute_.kernels.axpy(pairs[i].weight, outputs.row(i) + range.begin, range.size(),
                              y_.row(pairs[i].token) + range.begin);
    });
  }

  Compute& compute_;
  const ExpertShape& shape_;
  const PreparedRows& x_;
  const MatrixView<float> y_;
};

}  // namespace

void mixture(Compute& compute, const ExpertShape& shape, std::span<const ExpertWeights> experts,
             std::span<const ExpertWeights> shared, const Routing& routing, MatrixView<const float> x,
             MatrixView<float> y) {
  Arena::Scope scope(compute.arena);
  const Arithmetic arithmetic = compute.settings.arithmetic;
  for (std::int64_t r = 0; r < y.rows; ++r)
    std::memset(y.row(r), 0, static_cast<std::size_t>(y.cols) * sizeof(float));
  if (!experts.empty()) {
    const PartScope part(compute.profile, StepPart::kRoutedExperts);
    const PreparedRows prepared = prepare_rows(compute, experts[0].w1.kind, arithmetic, shape.quantizer, x);
    const PairList list(compute.arena, experts, routing);
    ExpertStage stage(compute, shape, prepared, y);
    const std::int64_t most = shape.weigh_output ? kWeighedPairs : kPairs;
    // The segments from `s` on that are worked on together.
    const auto group_at = [&](std::int64_t s) {
      std::int64_t last = s;
      while (last < list.segment_count &&
             (last == s || list.segments[last].end - list.segments[s].begin <= most))
        ++last;
      return std::span<const Segment>{list.segments + s, static_cast<std::size_t>(last - s)};
    };
    std::span<const Segment> group = group_at(0);
    if (compute.read_ahead) ask_for(group);
    for (std::int64_t s = 0; s < list.segment_count;) {
      s += static_cast<std::int64_t>(group.size());
      const std::span<const Segment> next = group_at(s);
      if (compute.read_ahead) ask_for(next);
      stage.run(list.pairs, group);
      group = next;
    }
  }
  const PartScope part(compute.profile, shape.shared_part);
  ExpertShape unweighed = shape;
  unweighed.weigh_output = false;
  for (const ExpertWeights& expert : shared) {
    const PreparedRows prepared = prepare_rows(compute, expert.w1.kind, arithmetic, shape.quantizer, x);
    Pair* pairs = compute.arena.array<Pair>(x.rows);
    for (std::int64_t r = 0; r < x.rows; ++r) pairs[r] = {static_cast<std::int32_t>(r), 1.0f};
    const Segment all{&expert, 0, x.rows};
    ExpertStage(compute, unweighed, prepared, y).run(pairs, {&all, 1});
  }
}

}  // namespace seekline
