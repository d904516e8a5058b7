#include "model/embedding.h"

#include <algorithm>

#include "core/mapped_file.h"

namespace seekline {

void embed_tokens(Compute& compute, const WeightView& embed, std::span<const Run> runs,
                  MatrixView<float> out) {
  const PartScope part(compute.profile, StepPart::kEmbedding);
  if (embed.mostly_on_disk())  // all rows at once, instead of one after the other as they are read
    for (const Run& run : runs)
      for (const std::int32_t token : run.tokens) map_will_need(embed.row(token), embed.row_bytes());
  std::int64_t row = 0;
  for (const Run& run : runs) {
    for_rows(compute, static_cast<std::int64_t>(run.tokens.size()), [&](std::int64_t i) {
      decode_weight_row(embed, run.tokens[static_cast<std::size_t>(i)], out.row(row + i));
    });
    row += static_cast<std::int64_t>(run.tokens.size());
  }
}

void embed_streams(Compute& compute, const WeightView& embed, std::span<const Run> runs, int streams,
                   MatrixView<float> h) {
  const PartScope part(compute.profile, StepPart::kEmbedding);
  const std::int64_t hidden = h.cols / streams;
  embed_tokens(compute, embed, runs, h.cols_from(0, hidden));
  for_rows(compute, h.rows, [&](std::int64_t r) {
    for (int k = 1; k < streams; ++k) std::copy(h.row(r), h.row(r) + hidden, h.row(r) + k * hidden);
  });
}

std::span<const std::int32_t> flat_tokens(Arena& arena, std::span<const Run> runs) {
  std::size_t count = 0;
  for (const Run& run : runs) count += run.tokens.size();
  std::int32_t* tokens = arena.array<std::int32_t>(static_cast<std::int64_t>(count));
  std::int32_t* out = tokens;
  for (const Run& run : runs) out = std::copy(run.tokens.begin(), run.tokens.end(), out);
  return {tokens, count};
}

std::span<const std::int64_t> decoder_rows(Arena& arena, std::span<const Run> runs) {
  std::int64_t count = 0;
  for (const Run& run : runs) count += static_cast<std::int64_t>(run.tokens.size()) - run.decoder_from;
  std::int64_t* rows = arena.array<std::int64_t>(count);
  std::int64_t* out = rows;
  std::int64_t begin = 0;
  for (const Run& run : runs) {
    const std::int64_t tokens = static_cast<std::int64_t>(run.tokens.size());
    for (std::int64_t i = run.decoder_from; i < tokens; ++i) *out++ = begin + i;
    begin += tokens;
  }
  return {rows, static_cast<std::size_t>(count)};
}

std::span<const std::int64_t> wanted_rows(Arena& arena, std::span<const Run> runs) {
  std::size_t count = 0;
  for (const Run& run : runs) count += run.wanted_logits.size();
  std::int64_t* rows = arena.array<std::int64_t>(static_cast<std::int64_t>(count));
  std::int64_t* out = rows;
  std::int64_t begin = 0;
  for (const Run& run : runs) {
    for (const std::int32_t i : run.wanted_logits) *out++ = begin + i - run.decoder_from;
    begin += static_cast<std::int64_t>(run.tokens.size()) - run.decoder_from;
  }
  return {rows, count};
}

MatrixView<float> take_rows(Compute& compute, MatrixView<const float> from,
                            std::span<const std::int64_t> rows) {
  MatrixView<float> to = compute.arena.matrix(static_cast<std::int64_t>(rows.size()), from.cols);
  for (std::size_t r = 0; r < rows.size(); ++r)
    std::memcpy(to.row(static_cast<std::int64_t>(r)), from.row(rows[r]),
                static_cast<std::size_t>(from.cols) * sizeof(float));
  return to;
}

void keep_rows(RopeAngles& angles, std::span<const std::int64_t> rows) {
  MatrixView<float> cos_rows(angles.cos, 0, angles.pairs), sin_rows(angles.sin, 0, angles.pairs);
  keep_rows(cos_rows, rows);
  keep_rows(sin_rows, rows);
}

}  // namespace seekline
