// Token rows in and out of a forward.
#pragma once

#include <cstring>
#include <span>

#include "attention/batch.h"
#include "attention/rope.h"
#include "formats/weight_view.h"
#include "kernels/linear.h"

namespace seekline {

/// out[row] = embed[token], f32, runs in order.
void embed_tokens(Compute& compute, const WeightView& embed, std::span<const Run> runs,
                  MatrixView<float> out);

/// The same into every one of `streams` residual streams: h [tokens, streams * hidden].
void embed_streams(Compute& compute, const WeightView& embed, std::span<const Run> runs, int streams,
                   MatrixView<float> h);

/// Token ids of all runs, in order, in the arena.
std::span<const std::int32_t> flat_tokens(Arena& arena, std::span<const Run> runs);

/// Flat rows that the decoder part runs on, ascending.
std::span<const std::int64_t> decoder_rows(Arena& arena, std::span<const Run> runs);
/// Rows, of those that the decoder part runs on, whose logits are wanted.
std::span<const std::int64_t> wanted_rows(Arena& arena, std::span<const Run> runs);

/// A copy of the given rows, in the arena.
MatrixView<float> take_rows(Compute& compute, MatrixView<const float> from,
                            std::span<const std::int64_t> rows);

/// Copies all rows of `from` over those of `to`.
inline void copy_rows(MatrixView<const float> from, MatrixView<float> to) {
  for (std::int64_t r = 0; r < from.rows; ++r)
    std::memcpy(to.row(r), from.row(r), static_cast<std::size_t>(from.cols) * sizeof(float));
}

/// Keeps only the given rows (ascending), moved up in place.
template <typename T>
void keep_rows(MatrixView<T>& m, std::span<const std::int64_t> rows) {
  std::int64_t to = 0;
  for (const std::int64_t from : rows) {
    if (from != to) std::memmove(m.row(to), m.row(from), static_cast<std::size_t>(m.cols) * sizeof(T));
    ++to;
  }
  m.rows = to;
}
void keep_rows(RopeAngles& angles, std::span<const std::int64_t> rows);

}  // namespace seekline
