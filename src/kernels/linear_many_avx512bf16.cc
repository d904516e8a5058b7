// Many tokens: a tile of weight rows is decoded to bf16 once and multiplied with blocks of tokens.
//
// The order of each sum is that of linear_few: the same vectors in the same order into the same 16 lanes.
// Where few tokens multiply x (or a step's sum) by a power of two, here the weight carries it; the products
// are the same numbers.
#include "core/check.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kRows = 4;  // rows of one micro-kernel
// Tokens whose sums wait in scratch while their x stays in the second cache.
constexpr std::int64_t kTokens = 48;
// Vectors of each row in one pass: 4 KB a row, so that 4 rows and the x of a call stay in the first cache.
constexpr std::int64_t kDepth = 64;
constexpr std::int64_t kTileBytes = 256 << 10;

enum class Mode { kRunning, kChained, kChainedScaled };

/// Rows of one tile, a multiple of kRows.
SEEKLINE_SIMD std::int64_t tile_rows(std::int64_t vectors) {
  const std::int64_t rows = kTileBytes / (vectors * 64) / kRows * kRows;
  return rows < kRows ? kRows : rows > 32 ? 32 : rows;
}

struct Tile {
  const std::uint8_t* row[32];  ///< vectors of bf16
  const float* scale[32];       ///< f32 scales, one per 4 vectors (kChainedScaled)
};

/// vectors [begin, end) of kRows rows times T tokens, added to sums[t][r] (16 lanes each).
template <Mode mode, int T>
void micro(const std::uint8_t* const* w, const float* const* scale, const std::uint8_t* const* x,
           std::int64_t begin, std::int64_t end, float* sums) {
  __m512 sum[T][kRows];
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
      sum[t][r] = begin == 0 ? _mm512_setzero_ps() : _mm512_load_ps(sums + (t * kRows + r) * 16);
  if constexpr (mode == Mode::kRunning) {
    for (std::int64_t v = begin; v < end; ++v) {
      __m512bh wv[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) wv[r] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w[r] + v * 64));
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        const auto xv = reinterpret_cast<__m512bh>(_mm512_loadu_si512(x[t] + v * 64));
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) sum[t][r] = _mm512_dpbf16_ps(sum[t][r], wv[r], xv);
      }
    }
  } else {
    for (std::int64_t v = begin; v < end; v += 4) {
      __m512 part[T][kRows];
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) {
        __m512bh wv[kRows];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
          wv[r] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w[r] + (v + j) * 64));
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          const auto xv = reinterpret_cast<__m512bh>(_mm512_loadu_si512(x[t] + (v + j) * 64));
#pragma GCC unroll 4
          for (int r = 0; r < kRows; ++r)
            part[t][r] = _mm512_dpbf16_ps(j == 0 ? _mm512_setzero_ps() : part[t][r], wv[r], xv);
        }
      }
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        __m512 s;
        if constexpr (mode == Mode::kChainedScaled) s = _mm512_set1_ps(scale[r][v / 4]);
#pragma GCC unroll 6
        for (int t = 0; t < T; ++t) {
          if constexpr (mode == Mode::kChainedScaled) {
            sum[t][r] = _mm512_fmadd_ps(part[t][r], s, sum[t][r]);
          } else {
            sum[t][r] = _mm512_add_ps(sum[t][r], part[t][r]);
          }
        }
      }
    }
  }
#pragma GCC unroll 6
  for (int t = 0; t < T; ++t)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) _mm512_store_ps(sums + (t * kRows + r) * 16, sum[t][r]);
}

/// The next weights of memory, fetched a few lines at a time while others are multiplied.
struct Ahead {
  const std::uint8_t* at;
  std::int64_t lines, per_call;
  SEEKLINE_MEMBER void fetch() {
    for (std::int64_t i = 0; i < per_call && lines > 0; ++i, --lines, at += 64) _mm_prefetch(at, _MM_HINT_T1);
  }
};

template <Mode mode>
void multiply_group(const Tile& tile, std::int64_t first, const std::uint8_t* const* x, std::int64_t tokens,
                    std::int64_t vectors, float* sums, Ahead& ahead) {
  constexpr int kT = mode == Mode::kRunning ? 6 : 3;
  const std::uint8_t* const* w = tile.row + first;
  const float* const* scale = tile.scale + first;
  for (std::int64_t begin = 0; begin < vectors; begin += kDepth) {
    const std::int64_t end = begin + kDepth < vectors ? begin + kDepth : vectors;
    for (std::int64_t t = 0; t < tokens; t += kT) {
      float* s = sums + t * kRows * 16;
      ahead.fetch();
      switch (tokens - t < kT ? tokens - t : kT) {
        case 1:
          micro<mode, 1>(w, scale, x + t, begin, end, s);
          break;
        case 2:
          micro<mode, 2>(w, scale, x + t, begin, end, s);
          break;
        case 3:
          micro<mode, 3>(w, scale, x + t, begin, end, s);
          break;
        default:
          if constexpr (kT == 6) {
            if (tokens - t == 4) micro<mode, 4>(w, scale, x + t, begin, end, s);
            if (tokens - t == 5) micro<mode, 5>(w, scale, x + t, begin, end, s);
            if (tokens - t >= 6) micro<mode, 6>(w, scale, x + t, begin, end, s);
          }
      }
    }
  }
}

SEEKLINE_SIMD void finish_group(const Matmul& m, std::int64_t token, std::int64_t tokens, std::int64_t row,
                                int rows, const float* sums) {
  const auto mask = static_cast<__mmask8>((1u << rows) - 1);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const float* s = sums + t * kRows * 16;
    __m128 y = simd::reduce4(_mm512_load_ps(s), _mm512_load_ps(s + 16), _mm512_load_ps(s + 32),
                             _mm512_load_ps(s + 48));
    float* out = m.y[token + t] + row;
    if (m.accumulate) y = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), y);
    _mm_mask_storeu_ps(out, mask, y);
  }
}

template <Mode mode>
void multiply_tile(const Matmul& m, const Tile& tile, std::int64_t row, std::int64_t rows,
                   std::int64_t vectors, float* sums, Ahead ahead) {
  constexpr int kT = mode == Mode::kRunning ? 6 : 3;
  const std::int64_t calls =
      (rows + kRows - 1) / kRows * ((m.tokens + kT - 1) / kT) * ((vectors + kDepth - 1) / kDepth);
  ahead.per_call = ahead.lines / calls + 1;
  for (std::int64_t token = 0; token < m.tokens; token += kTokens) {
    const std::int64_t tokens = m.tokens - token < kTokens ? m.tokens - token : kTokens;
    for (std::int64_t r = 0; r < rows; r += kRows) {
      multiply_group<mode>(tile, r, m.x + token, tokens, vectors, sums, ahead);
      finish_group(m, token, tokens, row + r, rows - r < kRows ? static_cast<int>(rows - r) : kRows, sums);
    }
  }
}

void decode_bf16(const Matmul& m, std::int64_t row, std::int64_t vectors, __m512i* out) {
  const std::int64_t bytes = m.w.cols * 2;
  const std::uint8_t* p = m.w.data + row * bytes;
  for (std::int64_t v = 0; v < vectors; ++v)
    _mm512_store_si512(out + v, _mm512_maskz_loadu_epi8(simd::first64(bytes - v * 64), p + v * 64));
}

void decode_e4m3(const Matmul& m, std::int64_t row, std::int64_t vectors, __m512i* out) {
  const std::uint8_t* p = m.w.data + row * m.w.cols;
  const std::int64_t scale_cols = (m.w.cols + m.w.block_cols - 1) / m.w.block_cols;
  const bool scaled = m.w.scale_kind == ScaleKind::kUE8M0;
  const std::uint8_t* scales = m.w.scales + row / m.w.block_rows * scale_cols;
  const E4M3Step step;
  for (std::int64_t v = 0; v < vectors; v += 2) {
    const std::int64_t col = v * 32;
    __m512i words[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    if (col < m.w.cols) {
      step.expand(_mm512_maskz_loadu_epi8(simd::first64(m.w.cols - col), p + col), words);
      if (scaled) {
        const __m512i shift = e4m3_shift(m.w, scales, col);
        for (auto& word : words) word = scale_words(word, shift);
      }
    }
    _mm512_store_si512(out + v, words[0]);
    _mm512_store_si512(out + v + 1, words[1]);
  }
}

void decode_e2m1(const Matmul& m, std::int64_t row, std::int64_t vectors, __m512i* out) {
  const std::int64_t bytes = m.w.cols / 2, blocks = (m.w.cols + 31) / 32;
  const std::uint8_t* p = m.w.data + row * bytes;
  const std::uint8_t* scales = m.w.scales + row * blocks;
  const E2M1Step step;
  for (std::int64_t v = 0; v < vectors; v += 4) {
    const std::int64_t at = v * 16;
    __m512i words[4];
    step.expand(_mm512_maskz_loadu_epi8(simd::first64(bytes - at), p + at), words);
    const std::uint32_t codes = e2m1_scale_bytes(scales, v, blocks);
    std::int64_t shifts[4];  // block b scales the words 8b .. 8b + 7
    for (int b = 0; b < 4; ++b)
      shifts[b] = static_cast<std::int64_t>(
          static_cast<std::uint16_t>(scale_shift(static_cast<std::uint8_t>(codes >> 8 * b))) *
          std::uint64_t{0x0001000100010001});
    const __m512i shift = _mm512_set_epi64(shifts[3], shifts[3], shifts[2], shifts[2], shifts[1], shifts[1],
                                           shifts[0], shifts[0]);
    for (int j = 0; j < 4; ++j) _mm512_store_si512(out + v + j, scale_words(words[j], shift));
  }
}

}  // namespace

std::int64_t matmul_scratch_bytes(std::int64_t k) {
  const std::int64_t vectors = row_vectors(WeightKind::kE4M3, k);
  const std::int64_t many = (tile_rows(vectors) * vectors + kTokens * kRows) * 64;
  const std::int64_t few = kFewTokens * vectors * 64, plain = avx512::matmul_scratch_bytes(k);
  const std::int64_t own = many > few ? many : few;
  return own > plain ? own : plain;
}

void matmul_many(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  const std::int64_t vectors = row_vectors(m.w.kind, m.w.cols), row_bytes = weight_row_bytes(m.w);
  float* sums = reinterpret_cast<float*>(m.scratch);
  auto* decoded = reinterpret_cast<__m512i*>(m.scratch) + kTokens * kRows;
  const std::int64_t most = tile_rows(vectors);
  // Rows of bf16 whose length is a whole number of vectors are multiplied where they lie.
  const bool in_place = m.w.kind == WeightKind::kBF16 && m.w.cols % 32 == 0;
  for (std::int64_t row = m.row_begin; row < m.row_end; row += most) {
    const std::int64_t rows = m.row_end - row < most ? m.row_end - row : most;
    Tile tile;
    for (std::int64_t r = 0; r < (rows + kRows - 1) / kRows * kRows; ++r) {
      const std::int64_t from = r < rows ? r : rows - 1;  // missing rows repeat the last
      __m512i* out = decoded + from * vectors;
      tile.row[r] = in_place ? m.w.data + (row + from) * row_bytes : reinterpret_cast<std::uint8_t*>(out);
      tile.scale[r] = nullptr;
      if (m.w.scale_kind == ScaleKind::kF32)
        tile.scale[r] = reinterpret_cast<const float*>(m.w.scales) +
                        (row + from) / m.w.block_rows * ((m.w.cols + 127) / 128);
      if (in_place || r >= rows) continue;
      if (m.w.kind == WeightKind::kBF16) decode_bf16(m, row + r, vectors, out);
      if (m.w.kind == WeightKind::kE4M3) decode_e4m3(m, row + r, vectors, out);
      if (m.w.kind == WeightKind::kE2M1) decode_e2m1(m, row + r, vectors, out);
    }
    Ahead ahead{m.w.data + (row + rows) * row_bytes, 0, 0};
    const std::int64_t next = m.row_end - row - rows < most ? m.row_end - row - rows : most;
    ahead.lines = next * row_bytes / 64;
    if (next <= 0 && m.prefetch) ahead = {m.prefetch, m.prefetch_bytes / 64, 0};
    if (m.w.scale_kind == ScaleKind::kF32) {
      multiply_tile<Mode::kChainedScaled>(m, tile, row, rows, vectors, sums, ahead);
    } else if (m.w.kind == WeightKind::kE2M1) {
      multiply_tile<Mode::kChained>(m, tile, row, rows, vectors, sums, ahead);
    } else {
      multiply_tile<Mode::kRunning>(m, tile, row, rows, vectors, sums, ahead);
    }
  }
}

}  // namespace seekline::avx512bf16
