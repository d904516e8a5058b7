#include "model/engram.h"

#include <algorithm>
#include <cmath>

#include "core/mapped_file.h"
#include "kernels/linear.h"

namespace seekline {

std::int32_t* ngram_classes(Arena& arena, std::span<const Run> runs, const CompressedVocabulary& vocabulary,
                            int max_ngram, std::int64_t pad_token) {
  std::int64_t tokens = 0;
  for (const Run& run : runs) tokens += static_cast<std::int64_t>(run.tokens.size());
  std::int32_t* classes = arena.array<std::int32_t>(tokens * max_ngram);
  const std::int32_t pad = vocabulary.class_of[static_cast<std::size_t>(pad_token)];
  std::int32_t* out = classes;
  for (const Run& run : runs) {
    const std::span<const std::int32_t> history = run.cache->tokens();
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(run.tokens.size()); ++i) {
      for (int back = 0; back < max_ngram; ++back) {
        const std::int64_t at = i - back;
        const std::int64_t position = run.first_position + at;
        if (position < 0) {
          *out++ = pad;
        } else {
          const std::int32_t id = at >= 0 ? run.tokens[static_cast<std::size_t>(at)]
                                          : history[static_cast<std::size_t>(position)];
          *out++ = vocabulary.class_of[static_cast<std::size_t>(id)];
        }
      }
    }
  }
  return classes;
}

Engram::Engram(const EngramWeights& weights, const EngramLayout& layout, const EngramLayout::Layer& layer,
               const HyperConnectionShape& streams)
    : weights_(weights),
      layout_(layout),
      layer_(layer),
      streams_(streams),
      qk_weight_(weights.q_weight.size()) {
  std::transform(weights.q_weight.begin(), weights.q_weight.end(), weights.k_weight.begin(),
                 qk_weight_.begin(), [](float q, float k) { return q * k; });
}

void Engram::find_rows(Compute& compute, const std::int32_t* classes, MatrixView<std::int64_t> rows) const {
  for_rows(compute, rows.rows, [&](std::int64_t r) {
    engram_rows(layout_, layer_, classes + r * layout_.max_ngram, rows.row(r));
  });
  if (weights_.table.mostly_on_disk()) ask_for(compute, rows);
}

// Those of all tokens in order of place, each once.
void Engram::ask_for(Compute& compute, MatrixView<const std::int64_t> rows) const {
  Arena::Scope scope(compute.arena);
  const std::int64_t count = rows.rows * rows.cols;
  std::int64_t* sorted = compute.arena.array<std::int64_t>(count);
  for (std::int64_t r = 0; r < rows.rows; ++r) std::copy_n(rows.row(r), rows.cols, sorted + r * rows.cols);
  std::sort(sorted, sorted + count);
  const std::int64_t* end = std::unique(sorted, sorted + count);
  const WeightView& table = weights_.table;
  for (const std::int64_t* row = sorted; row != end; ++row) map_will_need(table.row(*row), table.row_bytes());
  const std::int64_t row_scales = table.scale_cols();
  for (const std::int64_t* row = sorted; row != end; ++row)
    map_will_need(table.scales + *row * row_scales, row_scales);
}

void Engram::apply(Compute& compute, MatrixView<const std::int64_t> rows, BlockQuantizer quantizer,
                   MatrixView<float> h) const {
  const PartScope part(compute.profile, StepPart::kEngram);
  if (compute.profile) compute.profile->count(h.rows * rows.cols * weights_.table.row_bytes(), 0);
  Arena::Scope scope(compute.arena);
  const std::int64_t width = weights_.table.cols;
  MatrixView<float> memory = compute.arena.matrix(h.rows, rows.cols * width);
  MatrixView<float> key_value = compute.arena.matrix(h.rows, weights_.wkv.rows);
  for_rows(compute, h.rows, [&](std::int64_t r) {
    for (std::int64_t c = 0; c < rows.cols; ++c)
      decode_weight_row(weights_.table, rows.row(r)[c], memory.row(r) + c * width);
  });
  linear(compute, weights_.wkv, quantizer, memory, key_value, compute.settings.arithmetic);
  for_rows(compute, h.rows,
           [&](std::int64_t r) { gate_and_add(compute.kernels, key_value.row(r), h.row(r)); });
}

void Engram::gate_and_add(const Kernels& kernels, const float* key_value, float* h) const {
  const std::int64_t hidden = streams_.hidden;
  const float* value = key_value + streams_.streams * hidden;
  const auto rstd = [&](const float* x) {
    return 1.0f / std::sqrt(kernels.sum_squares(x, hidden) / static_cast<float>(hidden) + streams_.norm_eps);
  };
  for (int k = 0; k < streams_.streams; ++k) {
    float* stream = h + k * hidden;
    const float* key = key_value + k * hidden;
    const float* weight = qk_weight_.data() + k * hidden;
    const float dot = kernels.dot3(stream, weight, key, hidden) * rstd(stream) * rstd(key) /
                      std::sqrt(static_cast<float>(hidden));
    const float root = std::copysign(std::sqrt(std::max(std::fabs(dot), 1e-6f)), dot);
    kernels.axpy(1.0f / (1.0f + std::exp(-root)), value, hidden, stream);
  }
}

}  // namespace seekline
