#include "model/merged_latent.h"

#include <algorithm>
#include <cstring>

#include "core/thread_pool.h"
#include "formats/elements.h"
#include "kernels/exact.h"

namespace seekline {
namespace {

WeightKind merged_kind(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kF32 ? WeightKind::kF32 : WeightKind::kBF16;
}

std::int64_t element_bytes(Arithmetic arithmetic) { return arithmetic == Arithmetic::kF32 ? 4 : 2; }

void store(const float* values, std::int64_t count, Arithmetic arithmetic, std::uint8_t* out) {
  if (arithmetic == Arithmetic::kF32) {
    std::memcpy(out, values, static_cast<std::size_t>(count) * 4);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint16_t bits = f32_to_bf16(values[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

// Memory of one worker: inputs and outputs of one call, which makes `kRows` rows of a merged weight.
class Merger {
 public:
  static constexpr std::int64_t kRows = 64;

  Merger(const Kernels& kernels, Arithmetic arithmetic, std::int64_t inputs, std::int64_t outputs)
      : kernels_(kernels),
        arithmetic_(arithmetic),
        x_(static_cast<std::size_t>(kRows * inputs)),
        y_(static_cast<std::size_t>(kRows * outputs)),
        scratch_(static_cast<std::size_t>(kernels.transposed_scratch_bytes(inputs, outputs, kRows))),
        inputs_(inputs),
        outputs_(outputs) {
    for (std::int64_t i = 0; i < kRows; ++i) {
      xs_[i] = x_.data() + i * inputs;
      ys_[i] = y_.data() + i * outputs;
    }
  }

  float* input(std::int64_t row) { return x_.data() + row * inputs_; }

  /// inputs [rows] times w[first_row, first_row + inputs) -> `out`, `stride` bytes a row.
  void run(const WeightView& w, std::int64_t first_row, std::int64_t rows, std::uint8_t* out,
           std::int64_t stride) {
    TransposedMatmul m;
    m.w = w;
    m.arithmetic = Arithmetic::kF32;
    m.row_begin = first_row;
    m.row_end = first_row + inputs_;
    m.col_end = outputs_;
    m.x = xs_;
    m.y = ys_;
    m.tokens = rows;
    m.scratch = scratch_.data();
    kernels_.matmul_transposed(m);
    for (std::int64_t i = 0; i < rows; ++i) store(ys_[i], outputs_, arithmetic_, out + i * stride);
  }

 private:
  const Kernels& kernels_;
  const Arithmetic arithmetic_;
  Buffer<float> x_, y_;
  Buffer<std::uint8_t> scratch_;
  const std::int64_t inputs_, outputs_;
  const float* xs_[kRows];
  float* ys_[kRows];
};

// Head `head`: row c of the merged query weight is sum_n W^UK[n, c] * W^UQ[n, :]; its rotary rows are copied.
void merge_query_head(const LatentHeads& h, const WeightView& q, Merger& merger, std::int64_t head,
                      Arithmetic arithmetic, MergedLatent& out) {
  const std::int64_t row_bytes = out.query.row_bytes(), first_row = head * h.key_width();
  std::uint8_t* to = out.query_memory.data() + head * h.latent_width() * row_bytes;
  Buffer<float> row(static_cast<std::size_t>(std::max<std::int64_t>(h.latent, q.cols)));
  for (std::int64_t c = 0; c < h.latent; c += Merger::kRows) {
    const std::int64_t rows = std::min<std::int64_t>(Merger::kRows, h.latent - c);
    for (std::int64_t n = 0; n < h.nope; ++n) {
      decode_weight_row(h.kv_b, head * h.head_rows() + n, row.data());
      for (std::int64_t i = 0; i < rows; ++i) merger.input(i)[n] = row[static_cast<std::size_t>(c + i)];
    }
    merger.run(q, first_row, rows, to + c * row_bytes, row_bytes);
  }
  for (std::int64_t r = 0; r < h.rope; ++r) {
    decode_weight_row(q, first_row + h.nope + r, row.data());
    store(row.data(), q.cols, arithmetic, to + (h.latent + r) * row_bytes);
  }
}

// Head `head` of every output row o: columns sum_v W^O[o, v] * W^UV[v, :].
void merge_output_head(const LatentHeads& h, const WeightView& o, Merger& merger, std::int64_t head,
                       Arithmetic arithmetic, MergedLatent& out) {
  Buffer<float> row(static_cast<std::size_t>(o.cols));
  for (std::int64_t first = 0; first < o.rows; first += Merger::kRows) {
    const std::int64_t rows = std::min<std::int64_t>(Merger::kRows, o.rows - first);
    for (std::int64_t i = 0; i < rows; ++i) {
      decode_weight_row(o, first + i, row.data());
      std::copy_n(row.data() + head * h.value, h.value, merger.input(i));
    }
    merger.run(h.kv_b, head * h.head_rows() + h.nope, rows,
               out.output_memory.data() + first * out.output.row_bytes() +
                   head * h.latent * element_bytes(arithmetic),
               out.output.row_bytes());
  }
}

}  // namespace

std::int64_t merged_bytes(const LatentHeads& h, const WeightView& q, const WeightView& o,
                          Arithmetic arithmetic) {
  return std::int64_t{h.heads} * (h.latent_width() * q.cols + o.rows * h.latent) * element_bytes(arithmetic);
}

MergedLatent merge_latent(const LatentHeads& h, const WeightView& q, const WeightView& o,
                          Arithmetic arithmetic) {
  MergedLatent out;
  out.query.kind = out.output.kind = merged_kind(arithmetic);
  out.query.rows = std::int64_t{h.heads} * h.latent_width();
  out.query.cols = q.cols;
  out.output.rows = o.rows;
  out.output.cols = std::int64_t{h.heads} * h.latent;
  out.query_memory = Buffer<std::uint8_t>(static_cast<std::size_t>(out.query.bytes()));
  out.output_memory = Buffer<std::uint8_t>(static_cast<std::size_t>(out.output.bytes()));
  out.query.data = out.query_memory.data();
  out.output.data = out.output_memory.data();
  const Kernels& kernels = arithmetic == Arithmetic::kF32 ? exact_kernels() : seekline::kernels();
  ThreadPool pool(default_threads());
  pool.split(h.heads, 1, [&](WorkRange range, int) {
    Merger queries(kernels, arithmetic, h.nope, q.cols), outputs(kernels, arithmetic, h.value, h.latent);
    for (std::int64_t head = range.begin; head < range.end; ++head) {
      merge_query_head(h, q, queries, head, arithmetic, out);
      merge_output_head(h, o, outputs, head, arithmetic, out);
    }
  });
  return out;
}

}  // namespace seekline
