// Many tokens: a tile of weight rows is decoded to bf16 once and multiplied with blocks of tokens.
//
// The order of each sum is that of linear_few: the same vectors in the same order into the same 16 lanes.
// Where few tokens multiply x (or a step's sum) by a power of two, here the weight carries it; the products
// are the same numbers.
#include "core/check.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"
#include "kernels/row_pitch.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kRows = 4;       // rows of one micro-kernel
constexpr int kMostRows = 32;  // of a tile
constexpr int kMostTokens = 6;
// Of the second cache.
constexpr std::int64_t tile_bytes(Dots form) { return (form == Dots::kInstruction ? 256 : 768) << 10; }

/// Vectors in one pass of a tile's rows over the tokens of a micro-kernel: their x and the tile's sums stay
/// in the first cache while the weights come from the second.
constexpr std::int64_t depth(Dots form) { return 2048 / x_vector_bytes(form); }

enum class Mode { kRunning, kChained, kChainedScaled };

/// Bytes from one row of a tile to the next.
SEEKLINE_SIMD std::int64_t tile_pitch(Dots form, std::int64_t vectors) {
  return row_pitch(vectors * x_vector_bytes(form));
}

/// Rows of one tile, a multiple of kRows.
SEEKLINE_SIMD std::int64_t tile_rows(Dots form, std::int64_t vectors) {
  const std::int64_t rows = tile_bytes(form) / tile_pitch(form, vectors) / kRows * kRows;
  return rows < kRows ? kRows : rows > kMostRows ? kMostRows : rows;
}

struct Tile {
  const std::uint8_t* row[kMostRows];  ///< vectors in the form of x
  const float* scale[kMostRows];       ///< f32 scales, one per 4 vectors (kChainedScaled)
};

/// Adds the products of vector v of kRows rows and T tokens to acc[t][r]. Fused pairs take all odd words
/// first, then all even ones: half the weights are in registers at a time.
template <Dots kForm, int T>
SEEKLINE_SIMD void add_vector(const std::uint8_t* const* w, const std::uint8_t* const* x, std::int64_t v,
                              __m512 (&acc)[T][kRows]) {
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  if constexpr (kForm == Dots::kInstruction) {
    __m512bh wv[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) wv[r] = reinterpret_cast<__m512bh>(_mm512_loadu_si512(w[r] + v * kX));
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      __m512i words = _mm512_loadu_si512(x[t] + v * kX);
      simd::in_register(words);
      const auto xv = reinterpret_cast<__m512bh>(words);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[t][r] = _mm512_dpbf16_ps(acc[t][r], wv[r], xv);
    }
  } else {
#pragma GCC unroll 2
    for (int half = 0; half < 2; ++half) {
      __m512 wv[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        wv[r] = _mm512_loadu_ps(w[r] + v * kX + half * 64);
        simd::in_register(wv[r]);
      }
#pragma GCC unroll 6
      for (int t = 0; t < T; ++t) {
        __m512 xv = _mm512_loadu_ps(x[t] + v * kX + half * 64);
        simd::in_register(xv);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) acc[t][r] = _mm512_fmadd_ps(wv[r], xv, acc[t][r]);
      }
    }
  }
}

/// Adds to acc the sums of a step, which begins at vector v, times its scales.
template <Mode mode, int T>
SEEKLINE_SIMD void add_parts(const __m512 (&part)[T][kRows], const float* const* scale, std::int64_t v,
                             __m512 (&acc)[T][kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    __m512 s;
    if constexpr (mode == Mode::kChainedScaled) s = _mm512_set1_ps(scale[r][v / 4]);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      if constexpr (mode == Mode::kChainedScaled) {
        acc[t][r] = _mm512_fmadd_ps(part[t][r], s, acc[t][r]);
      } else {
        acc[t][r] = _mm512_add_ps(acc[t][r], part[t][r]);
      }
    }
  }
}

/// Tokens of one micro-kernel. Chained sums take a register more for each; fused pairs keep the sums in
/// memory between the steps instead, since more tokens save them more reads of weights.
template <Dots kForm, Mode mode>
constexpr int most_tokens() {
  return mode == Mode::kRunning || kForm == Dots::kFusedPairs ? kMostTokens : 3;
}

/// vectors [begin, end) of kRows rows times T tokens, added to sums[t][r] (16 lanes each), which vector 0
/// begins.
template <Dots kForm, Mode mode, int T>
void micro(const std::uint8_t* const* w, const float* const* scale, const std::uint8_t* const* x,
           std::int64_t begin, std::int64_t end, float* sums) {
  __m512 acc[T][kRows], part[T][kRows];
  simd::clear<T>(acc);
  if (begin > 0) simd::load<T>(sums, acc);
  if constexpr (mode == Mode::kRunning) {
    for (std::int64_t v = begin; v < end; ++v) add_vector<kForm, T>(w, x, v, acc);
  } else {
    constexpr bool kInMemory = T > 3;
    if constexpr (kInMemory) simd::store<T>(acc, sums);
    for (std::int64_t v = begin; v < end; v += 4) {
      simd::clear<T>(part);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) add_vector<kForm, T>(w, x, v + j, part);
      if constexpr (kInMemory) simd::load<T>(sums, acc);
      add_parts<mode, T>(part, scale, v, acc);
      if constexpr (kInMemory) simd::store<T>(acc, sums);
    }
    if constexpr (kInMemory) return;
  }
  simd::store<T>(acc, sums);
}

template <Dots kForm, Mode mode>
void micro_of(std::int64_t tokens, const std::uint8_t* const* w, const float* const* scale,
              const std::uint8_t* const* x, std::int64_t begin, std::int64_t end, float* sums) {
  switch (tokens) {
    case 1:
      return micro<kForm, mode, 1>(w, scale, x, begin, end, sums);
    case 2:
      return micro<kForm, mode, 2>(w, scale, x, begin, end, sums);
    case 3:
      return micro<kForm, mode, 3>(w, scale, x, begin, end, sums);
    default:
      if constexpr (most_tokens<kForm, mode>() > 3) {
        if (tokens == 4) return micro<kForm, mode, 4>(w, scale, x, begin, end, sums);
        if (tokens == 5) return micro<kForm, mode, 5>(w, scale, x, begin, end, sums);
        return micro<kForm, mode, 6>(w, scale, x, begin, end, sums);
      }
  }
}

SEEKLINE_SIMD void finish_group(const Matmul& m, std::int64_t token, std::int64_t tokens, std::int64_t row,
                                std::int64_t rows, const float* sums) {
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

/// Fetches part `i` of `parts` of the x of a pass into the first cache.
template <Dots kForm>
SEEKLINE_SIMD void fetch_x(const Matmul& m, std::int64_t token, std::int64_t tokens, std::int64_t begin,
                           std::int64_t end, std::int64_t i, std::int64_t parts) {
  const std::int64_t lines = (end - begin) * x_vector_bytes(kForm) / 64;
  for (std::int64_t t = token; t < token + tokens; ++t) {
    const std::uint8_t* x = m.x[t] + begin * x_vector_bytes(kForm);
    for (std::int64_t l = lines * i / parts; l < lines * (i + 1) / parts; ++l)
      _mm_prefetch(x + l * 64, _MM_HINT_T0);
  }
}

template <Dots kForm, Mode mode>
void multiply_tile(const Matmul& m, const Tile& tile, std::int64_t row, std::int64_t rows,
                   std::int64_t vectors, float* sums, simd::Ahead ahead) {
  constexpr std::int64_t kMost = most_tokens<kForm, mode>(), kDepth = depth(kForm),
                         kSums = kMost * kRows * 16;
  const std::int64_t passes = (m.tokens + kMost - 1) / kMost, kT = (m.tokens + passes - 1) / passes;
  const std::int64_t groups = (rows + kRows - 1) / kRows;
  const std::int64_t calls = groups * ((m.tokens + kT - 1) / kT) * ((vectors + kDepth - 1) / kDepth);
  ahead.per_call = ahead.lines / calls + 1;
  for (std::int64_t token = 0; token < m.tokens; token += kT) {
    const std::int64_t tokens = m.tokens - token < kT ? m.tokens - token : kT;
    for (std::int64_t begin = 0; begin < vectors; begin += kDepth) {
      const std::int64_t end = begin + kDepth < vectors ? begin + kDepth : vectors;
      const bool on = end < vectors;  // the next pass takes the next vectors of these tokens
      const std::int64_t next = on ? token : token + kT, first = on ? end : 0;
      const std::int64_t last = first + kDepth < vectors ? first + kDepth : vectors;
      const std::int64_t count = next >= m.tokens ? 0 : m.tokens - next < kT ? m.tokens - next : kT;
      for (std::int64_t r = 0; r < rows; r += kRows) {
        ahead.fetch();
        if constexpr (kForm == Dots::kFusedPairs)
          fetch_x<kForm>(m, next, count, first, last, r / kRows, groups);
        micro_of<kForm, mode>(tokens, tile.row + r, tile.scale + r, m.x + token, begin, end,
                              sums + r / kRows * kSums);
      }
    }
    for (std::int64_t r = 0; r < rows; r += kRows)
      finish_group(m, token, tokens, row + r, rows - r < kRows ? rows - r : kRows, sums + r / kRows * kSums);
  }
}

template <Dots kForm>
void multiply_tile(const Matmul& m, const Tile& tile, std::int64_t row, std::int64_t rows,
                   std::int64_t vectors, float* sums, simd::Ahead ahead) {
  if (m.w.scale_kind == ScaleKind::kF32)
    return multiply_tile<kForm, Mode::kChainedScaled>(m, tile, row, rows, vectors, sums, ahead);
  if (m.w.kind == WeightKind::kE2M1)
    return multiply_tile<kForm, Mode::kChained>(m, tile, row, rows, vectors, sums, ahead);
  multiply_tile<kForm, Mode::kRunning>(m, tile, row, rows, vectors, sums, ahead);
}

void decode_bf16(const Matmul& m, std::int64_t row, std::int64_t vectors, Dots form, std::uint8_t* out) {
  const std::int64_t bytes = m.w.cols * 2;
  const std::uint8_t* p = m.w.data + row * bytes;
  for (std::int64_t v = 0; v < vectors; ++v)
    store_x(form, _mm512_maskz_loadu_epi8(simd::first64(bytes - v * 64), p + v * 64),
            out + v * x_vector_bytes(form));
}

void decode_e4m3(const Matmul& m, std::int64_t row, std::int64_t vectors, Dots form, std::uint8_t* out) {
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
    for (int i = 0; i < 2; ++i) store_x(form, words[i], out + (v + i) * x_vector_bytes(form));
  }
}

void decode_e2m1(const Matmul& m, std::int64_t row, std::int64_t vectors, Dots form, std::uint8_t* out) {
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
    for (int j = 0; j < 4; ++j)
      store_x(form, scale_words(words[j], shift), out + (v + j) * x_vector_bytes(form));
  }
}

}  // namespace

std::int64_t matmul_scratch_bytes(std::int64_t k) {
  const std::int64_t vectors = row_vectors(WeightKind::kE4M3, k);
  const Dots form = dots();
  const std::int64_t many =
      tile_rows(form, vectors) * tile_pitch(form, vectors) + kMostTokens * kMostRows * 64;
  const std::int64_t few = kMostStreamed * tile_pitch(form, vectors), plain = avx512::matmul_scratch_bytes(k);
  const std::int64_t own = many > few ? many : few;
  return own > plain ? own : plain;
}

void matmul_many(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  const Dots form = dots();
  const std::int64_t vectors = row_vectors(m.w.kind, m.w.cols), row_bytes = weight_row_bytes(m.w);
  float* sums = reinterpret_cast<float*>(m.scratch);
  std::uint8_t* decoded = m.scratch + kMostTokens * kMostRows * 64;
  const std::int64_t pitch = tile_pitch(form, vectors), most = tile_rows(form, vectors);
  // The instruction multiplies rows of bf16 where they lie, if their length is a whole number of vectors.
  const bool in_place = form == Dots::kInstruction && m.w.kind == WeightKind::kBF16 && m.w.cols % 32 == 0;
  for (std::int64_t row = m.row_begin; row < m.row_end; row += most) {
    const std::int64_t rows = m.row_end - row < most ? m.row_end - row : most;
    Tile tile;
    for (std::int64_t r = 0; r < (rows + kRows - 1) / kRows * kRows; ++r) {
      const std::int64_t from = r < rows ? r : rows - 1;  // missing rows repeat the last
      std::uint8_t* out = decoded + from * pitch;
      tile.row[r] = in_place ? m.w.data + (row + from) * row_bytes : out;
      tile.scale[r] = nullptr;
      if (m.w.scale_kind == ScaleKind::kF32)
        tile.scale[r] = reinterpret_cast<const float*>(m.w.scales) +
                        (row + from) / m.w.block_rows * ((m.w.cols + 127) / 128);
      if (in_place || r >= rows) continue;
      if (m.w.kind == WeightKind::kBF16) decode_bf16(m, row + r, vectors, form, out);
      if (m.w.kind == WeightKind::kE4M3) decode_e4m3(m, row + r, vectors, form, out);
      if (m.w.kind == WeightKind::kE2M1) decode_e2m1(m, row + r, vectors, form, out);
    }
    simd::Ahead ahead{m.w.data + (row + rows) * row_bytes, 0, 0};
    const std::int64_t next = m.row_end - row - rows < most ? m.row_end - row - rows : most;
    ahead.lines = next * row_bytes / 64;
    if (next <= 0 && m.prefetch) ahead = {m.prefetch, m.prefetch_bytes / 64, 0};
    form == Dots::kInstruction ? multiply_tile<Dots::kInstruction>(m, tile, row, rows, vectors, sums, ahead)
                               : multiply_tile<Dots::kFusedPairs>(m, tile, row, rows, vectors, sums, ahead);
  }
}

}  // namespace seekline::avx512bf16
