#include "attention/compressor.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "core/check.h"
#include "kernels/linear.h"

namespace seekline {
namespace {

// One member of a group: its values and gate logits, [width] each.
struct Member {
  const float* value;
  const float* gate;
};

// out[c] = sum_i softmax_i(gate_i[c]) * value_i[c], members in token order, f32.
void softmax_pool(const Kernels& kernels, std::span<const Member> members, int width, float* scratch,
                  float* out) {
  float* max = scratch;
  float* sum = scratch + width;
  float* weight = scratch + 2 * width;
  std::copy(members[0].gate, members[0].gate + width, max);
  for (const Member& m : members.subspan(1))
    for (int c = 0; c < width; ++c) max[c] = std::max(max[c], m.gate[c]);
  std::fill(sum, sum + width, 0.0f);
  std::fill(out, out + width, 0.0f);
  for (const Member& m : members) {
    for (int c = 0; c < width; ++c) weight[c] = m.gate[c] - max[c];
    kernels.exp(weight, width, weight);
    for (int c = 0; c < width; ++c) {
      sum[c] += weight[c];
      out[c] += weight[c] * m.value[c];
    }
  }
  for (int c = 0; c < width; ++c) out[c] /= sum[c];
}

// Lists the groups that end inside the runs and may be written.
std::span<const Latents::Group> finished_groups(Arena& arena, const TokenBatch& batch, int m) {
  Latents::Group* groups =
      arena.array<Latents::Group>(batch.count / m + static_cast<std::int64_t>(batch.runs.size()));
  std::size_t count = 0;
  for (std::size_t r = 0; r < batch.runs.size(); ++r) {
    const FlatRun& run = batch.runs[r];
    const std::int64_t end = (run.first_position + run.count) / m;
    for (std::int64_t row = std::max(run.first_position / m, run.write_floor / m); row < end; ++row)
      new (groups + count++) Latents::Group{static_cast<std::int32_t>(r), row, row * m};
  }
  return {groups, count};
}

// (c, z) of every token as rows of the tail ring: values first, then gate logits with the position bias
// added.
void write_members(Compute& compute, const TokenBatch& batch, const CompressorWeights& weights,
                   const CompressorShape& shape, const StepRing& ring, MatrixView<const float> x) {
  const std::int64_t half = weights.wkv.rows;
  Arena::Scope scope(compute.arena);
  MatrixView<float> members = compute.arena.matrix(batch.count, 2 * half);
  const PreparedRows prepared =
      prepare_rows(compute, weights.wkv.kind, Arithmetic::kF32, BlockQuantizer::kNone, x);
  const PreparedRows gate_input =
      weights.wgate.kind == weights.wkv.kind
          ? prepared
          : prepare_rows(compute, weights.wgate.kind, Arithmetic::kF32, BlockQuantizer::kNone, x);
  const Product products[] = {
      {weights.wkv, prepared, row_pointers(compute, members.cols_from(0, half))},
      {weights.wgate, gate_input, row_pointers(compute, members.cols_from(half, half))}};
  run_products(compute, products);
  for_rows(compute, batch.count, [&](std::int64_t r) {
    float* gate = members.row(r) + half;
    if (!weights.ape.empty()) {
      const float* bias = weights.ape.data() + batch.position[r] % shape.tokens_per_group * half;
      for (std::int64_t c = 0; c < half; ++c) gate[c] += bias[c];
    }
    ring.write(r, members.row(r));
  });
}

// The members of a group. Without overlap: its m tokens. With overlap: the first halves of the previous
// group's tokens (none for group 0), then the second halves of its own.
std::size_t list_members(const StepRing& ring, const FlatRun& run, const CompressorShape& shape,
                         const Latents::Group& group, Member* members) {
  const std::int64_t half = ring.format().width / 2;
  const int m = shape.tokens_per_group;
  std::size_t count = 0;
  const auto add = [&](std::int64_t position, std::int64_t offset) {
    const float* row = reinterpret_cast<const float*>(ring.at(run, position).data);
    members[count++] = {row + offset, row + half + offset};
  };
  if (shape.overlap && group.row > 0)
    for (int i = 0; i < m; ++i) add(group.first_position - m + i, 0);
  for (int i = 0; i < m; ++i) add(group.first_position + i, shape.overlap ? shape.width : 0);
  return count;
}

}  // namespace

int compressor_tail_rows(const CompressorShape& shape) {
  return shape.overlap ? 2 * shape.tokens_per_group - 1 : shape.tokens_per_group - 1;
}

Latents compress(Compute& compute, const TokenBatch& batch, const CompressorWeights& weights,
                 const CompressorShape& shape, const Store* tail, MatrixView<const float> x) {
  const PartScope part(compute.profile, StepPart::kIndexer);
  const int m = shape.tokens_per_group;
  const std::span<const Latents::Group> groups = finished_groups(compute.arena, batch, m);
  const std::int64_t count = static_cast<std::int64_t>(groups.size());
  MatrixView<float> latents = compute.arena.matrix(count, shape.width);
  const auto normalise = [&](std::int64_t g) {
    compute.kernels.rms_norm(latents.row(g), weights.norm.data(), shape.width, shape.eps, latents.row(g));
  };
  if (m == 1) {
    Arena::Scope scope(compute.arena);
    // Rows below the write floor were computed by an earlier forward: gather the others.
    MatrixView<float> input = compute.arena.matrix(count, x.cols);
    for (std::int64_t g = 0; g < count; ++g) {
      const Latents::Group& group = groups[static_cast<std::size_t>(g)];
      const FlatRun& run = batch.runs[static_cast<std::size_t>(group.run)];
      const float* from = x.row(run.begin + group.row - run.first_position);
      std::copy(from, from + x.cols, input.row(g));
    }
    if (count > 0) linear(compute, weights.wkv, BlockQuantizer::kNone, input, latents, Arithmetic::kF32);
    for_rows(compute, count, normalise);
    return {groups, latents};
  }
  SEEKLINE_CHECK(tail != nullptr && tail->row.width == 2 * weights.wkv.rows, "the tail ring of a compressor");
  Arena::Scope scope(compute.arena);
  const StepRing ring(compute, batch, *tail);
  write_members(compute, batch, weights, shape, ring, x);
  const std::int64_t scratch = 3 * std::int64_t{shape.width};
  float* scratches = compute.arena.array<float>(scratch * compute.pool.size());
  Member* members = compute.arena.array<Member>(2 * std::int64_t{m} * compute.pool.size());
  compute.pool.split(count, 1, [&](WorkRange range, int worker) {
    for (std::int64_t g = range.begin; g < range.end; ++g) {
      const Latents::Group& group = groups[static_cast<std::size_t>(g)];
      Member* mine = members + 2 * std::int64_t{m} * worker;
      const std::size_t n =
          list_members(ring, batch.runs[static_cast<std::size_t>(group.run)], shape, group, mine);
      softmax_pool(compute.kernels, {mine, n}, shape.width, scratches + worker * scratch, latents.row(g));
      normalise(g);
    }
  });
  ring.commit();
  return {groups, latents};
}

void append_rows(Compute& compute, const TokenBatch& batch, std::span<const Latents::Group> groups,
                 const Store& store, MatrixView<const float> values) {
  const PartScope part(compute.profile, StepPart::kElementwise);
  for_rows(compute, values.rows, [&](std::int64_t g) {
    const Latents::Group& group = groups[static_cast<std::size_t>(g)];
    const MutableRow row =
        batch.runs[static_cast<std::size_t>(group.run)].cache->mutable_row(store.id, group.row);
    compute.kernels.encode_row(store.row, values.row(g), row.data, row.scale);
  });
  for (const Latents::Group& group : groups)
    batch.runs[static_cast<std::size_t>(group.run)].cache->ledger().wrote(store.id, 1);
}

}  // namespace seekline
