// A tile of weight rows for products with many tokens: vectors in the form of x, decoded once, or bf16 where
// it lies.
#pragma once

#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"
#include "kernels/row_pitch.h"
#include "kernels/row_runs.h"
#include "kernels/row_scales.h"
#include "kernels/table.h"

namespace seekline::avx512bf16 {

inline constexpr int kTileGroup = 4;  ///< rows that are multiplied together
inline constexpr int kMostTileRows = 32;
/// Longer rows are cut: a tile of only a few whole ones would read all of x for little work.
inline constexpr std::int64_t kMostTileVectors = 160;

/// Of the second cache.
constexpr std::int64_t tile_bytes(Dots form) { return (form == Dots::kInstruction ? 384 : 768) << 10; }

/// How the sums of a tile run: over whole rows, or a step at a time, with or without an f32 scale.
enum class SumMode { kRunning, kChained, kChainedScaled };

/// Vectors of each of the fewest even parts of at most `most`; steps stay whole.
SEEKLINE_SIMD std::int64_t even_part(std::int64_t vectors, std::int64_t most) {
  return (simd::Passes(vectors, most).each + 3) / 4 * 4;
}

/// Bytes from one row of a tile to the next.
SEEKLINE_SIMD std::int64_t tile_pitch(Dots form, std::int64_t vectors) {
  return row_pitch(even_part(vectors, kMostTileVectors) * x_vector_bytes(form));
}

/// Bytes that the rows of a tile take at most.
SEEKLINE_SIMD std::int64_t tile_room(Dots form, std::int64_t pitch) {
  const std::int64_t least = kTileGroup * pitch, most = kMostTileRows * pitch, wanted = tile_bytes(form);
  return wanted < least ? least : wanted > most ? most : wanted;
}

/// Rows of one tile, a multiple of kTileGroup.
SEEKLINE_SIMD std::int64_t tile_rows(Dots form, std::int64_t pitch) {
  return tile_room(form, pitch) / pitch / kTileGroup * kTileGroup;
}

/// Vectors [begin, end) of some rows of a weight.
struct WeightTile {
  const std::uint8_t* row[kMostTileRows];  ///< in the form of x
  const float* scale[kMostTileRows];       ///< f32 scales, one per 4 vectors (kChainedScaled)
  std::int64_t first, rows;
  std::int64_t begin, end, vectors;  ///< `vectors` of a whole row
  SumMode mode;
  float factor;  ///< of the finished sums
};

// Vectors [begin, end) of a row; begin is a whole number of steps.

inline void decode_bf16(const Matmul& m, std::int64_t row, std::int64_t begin, std::int64_t end, Dots form,
                        std::uint8_t* out) {
  const std::int64_t bytes = m.w.cols * 2;
  const std::uint8_t* p = m.w.data + row * bytes;
  for (std::int64_t v = begin; v < end; ++v)
    store_x(form, _mm512_maskz_loadu_epi8(simd::first64(bytes - v * 64), p + v * 64),
            out + (v - begin) * x_vector_bytes(form));
}

inline void decode_e4m3(const Matmul& m, bool scaled, std::int64_t row, std::int64_t begin, std::int64_t end,
                        Dots form, std::uint8_t* out) {
  const std::uint8_t* p = m.w.data + row * m.w.cols;
  const std::uint8_t* scales = simd::row_scales(m.w, row);
  const E4M3Step step;
  for (std::int64_t v = begin; v < end; v += 2) {
    const std::int64_t col = v * 32;
    __m512i words[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (col < m.w.cols) {
      step.expand(_mm512_maskz_loadu_epi8(simd::first64(m.w.cols - col), p + col), words);
      if (scaled) {
        const __m512i shift = e4m3_shift(m.w, scales, col);
        for (auto& word : words) word = scale_words(word, shift);
      }
    }
    for (int i = 0; i < 2; ++i) store_x(form, words[i], out + (v - begin + i) * x_vector_bytes(form));
  }
}

inline void decode_e2m1(const Matmul& m, std::int64_t row, std::int64_t begin, std::int64_t end, Dots form,
                        std::uint8_t* out) {
  const std::int64_t bytes = m.w.cols / 2, blocks = (m.w.cols + 31) / 32;
  const std::uint8_t* p = m.w.data + row * bytes;
  const std::uint8_t* scales = m.w.scales + row * blocks;
  const E2M1Step step;
  for (std::int64_t v = begin; v < end; v += 4) {
    const std::int64_t at = v * 16;
    __m512i words[4];
    step.expand(_mm512_maskz_loadu_epi8(simd::first64(bytes - at), p + at), words);
    const __m512i shift = e2m1_shift(e2m1_scale_bytes(scales, v, blocks));
    for (int j = 0; j < 4; ++j)
      store_x(form, scale_e2m1(words[j], shift), out + (v - begin + j) * x_vector_bytes(form));
  }
}

/// Rows of a tile from `row` on: as many as it takes, but of one row of blocks where these decide the mode.
inline std::int64_t rows_of_tile(const Matmul& m, std::int64_t row, std::int64_t most) {
  std::int64_t end = m.row_end;
  if (m.w.scale_kind == ScaleKind::kF32) {
    const std::int64_t block_end = (row / m.w.block_rows + 1) * m.w.block_rows;
    end = block_end < end ? block_end : end;
  }
  return end - row < most ? end - row : most;
}

/// The tile of rows [first, first + rows), vectors [begin, end); decoded ones are written to `out`.
inline WeightTile make_tile(const Matmul& m, Dots form, std::int64_t first, std::int64_t rows,
                            std::int64_t begin, std::int64_t end, std::uint8_t* out) {
  const std::int64_t vectors = row_vectors(m.w.kind, m.w.cols), pitch = tile_pitch(form, vectors);
  // The instruction multiplies rows of bf16 where they lie, if their length is a whole number of vectors.
  const bool in_place = form == Dots::kInstruction && m.w.kind == WeightKind::kBF16 && m.w.cols % 32 == 0;
  WeightTile tile;
  tile.first = first;
  tile.rows = rows;
  tile.begin = begin;
  tile.end = end;
  tile.vectors = vectors;
  tile.mode = m.w.kind == WeightKind::kE2M1 ? SumMode::kChained : SumMode::kRunning;
  tile.factor = 1;
  if (m.w.kind == WeightKind::kE4M3) {
    const float factor = common_factor(m.w, simd::row_scales(m.w, first));
    if (factor == 0) tile.mode = SumMode::kChainedScaled;
    if (factor != 0) tile.factor = factor;
  }
  for (std::int64_t r = 0; r < (rows + kTileGroup - 1) / kTileGroup * kTileGroup; ++r) {
    const std::int64_t from = r < rows ? r : rows - 1;  // missing rows repeat the last
    tile.row[r] =
        in_place ? m.w.data + (first + from) * weight_row_bytes(m.w) + begin * 64 : out + from * pitch;
    tile.scale[r] = nullptr;
    if (tile.mode == SumMode::kChainedScaled)
      tile.scale[r] = reinterpret_cast<const float*>(simd::row_scales(m.w, first + from)) + begin / 4;
    if (in_place || r >= rows) continue;
    if (m.w.kind == WeightKind::kBF16) decode_bf16(m, first + r, begin, end, form, out + r * pitch);
    if (m.w.kind == WeightKind::kE4M3)
      decode_e4m3(m, tile.mode == SumMode::kRunning, first + r, begin, end, form, out + r * pitch);
    if (m.w.kind == WeightKind::kE2M1) decode_e2m1(m, first + r, begin, end, form, out + r * pitch);
  }
  return tile;
}

}  // namespace seekline::avx512bf16
