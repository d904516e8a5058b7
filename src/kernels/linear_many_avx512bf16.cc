// Many tokens: a tile of weight rows is decoded to bf16 once and multiplied with blocks of tokens.
//
// The order of each sum is that of linear_few: the same vectors in the same order into the same 16 lanes.
// Where few tokens multiply x (or a step's sum) by a power of two, here the weight carries it; the products
// are the same numbers.
#include "core/check.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/row_runs.h"
#include "kernels/weight_tile_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kRows = kTileGroup;
constexpr int kMostTokens = 6;  // of a micro-kernel
// Tokens whose sums wait where rows are cut.
constexpr std::int64_t kWaiting = 43 * kMostTokens;

/// Vectors in one pass of a tile's rows over the tokens of a micro-kernel: their x and the tile's sums stay
/// in the first cache while the weights come from the second. Passes cost the writing and reading of sums;
/// chained ones leave room for the weights as well (in_halves).
constexpr std::int64_t depth(Dots form, SumMode mode) {
  return (mode == SumMode::kRunning && form == Dots::kInstruction ? 4096 : 2048) / x_vector_bytes(form);
}

/// Vectors of a pass that is staggered: longer ones gain little, and have no room left in the first cache for
/// weights that are read twice.
constexpr std::int64_t kStaggered = 48;

/// Bytes of sums: those of a tile, of all tokens that wait where rows are cut.
SEEKLINE_SIMD std::int64_t sums_bytes(std::int64_t vectors) {
  return (vectors > kMostTileVectors ? kWaiting : kMostTokens) * kMostTileRows * 64;
}

/// Adds the products of vector v of kRows rows and T tokens to acc[t][r]. Fused pairs take all odd words
/// first, then all even ones: half the weights are in registers at a time.
template <Dots kForm, int T>
SEEKLINE_SIMD void add_vector(const std::uint8_t* const* w, const std::uint8_t* const* x, std::int64_t v,
                              __m512 (&acc)[T][kRows]) {
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  if constexpr (kForm == Dots::kInstruction) {
    __m512bh wv[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      __m512i words = _mm512_loadu_si512(w[r] + v * kX);
      simd::in_register(words);
      wv[r] = reinterpret_cast<__m512bh>(words);
    }
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
template <SumMode mode, int T>
SEEKLINE_SIMD void add_parts(const __m512 (&part)[T][kRows], const float* const* scale, std::int64_t v,
                             __m512 (&acc)[T][kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    __m512 s;
    if constexpr (mode == SumMode::kChainedScaled) s = _mm512_set1_ps(scale[r][v / 4]);
#pragma GCC unroll 6
    for (int t = 0; t < T; ++t) {
      if constexpr (mode == SumMode::kChainedScaled) {
        acc[t][r] = _mm512_fmadd_ps(part[t][r], s, acc[t][r]);
      } else {
        acc[t][r] = _mm512_add_ps(acc[t][r], part[t][r]);
      }
    }
  }
}

/// Chained sums take a register more for each token. The instruction takes half of the tokens after the
/// other, the second time with weights from the first cache; fused pairs keep the sums in memory between the
/// steps instead, since more tokens save them more reads of weights.
template <Dots kForm, SumMode mode, int T>
constexpr bool in_halves() {
  return kForm == Dots::kInstruction && mode != SumMode::kRunning && T > 3;
}

/// kRows rows of a tile and the tokens of a micro-kernel.
struct Block {
  const std::uint8_t* const* w;
  const float* const* scale;
  const std::uint8_t* const* x;
  float* const* y;
  float* sums;  ///< [tokens][kRows][16], between the passes
  std::int64_t row, rows;
  float factor;
  bool accumulate;
  bool started, finished;  ///< by the passes before; with this pass
};

/// The sums of a block's tokens to their outputs.
template <int T>
SEEKLINE_SIMD void finish(const Block& b, const __m512 (&acc)[T][kRows]) {
  const auto mask = static_cast<__mmask8>((1u << b.rows) - 1);
  const __m128 factor = _mm_set1_ps(b.factor);
  const auto put = [&](int t, __m128 y) __attribute__((always_inline)) {
    float* out = b.y[t] + b.row;
    y = _mm_mul_ps(y, factor);
    if (b.accumulate) y = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), y);
    if (b.rows == kRows) {
      _mm_storeu_ps(out, y);
    } else {
      _mm_mask_storeu_ps(out, mask, y);
    }
  };
  const auto four = [&]<int kFirst, int kTokens>() __attribute__((always_inline)) {
    const __m512 y = simd::reduce4<kTokens>(&acc[kFirst]);
    put(kFirst, _mm512_castps512_ps128(y));
    if constexpr (kTokens > 1) put(kFirst + 1, _mm512_extractf32x4_ps(y, 1));
    if constexpr (kTokens > 2) put(kFirst + 2, _mm512_extractf32x4_ps(y, 2));
    if constexpr (kTokens > 3) put(kFirst + 3, _mm512_extractf32x4_ps(y, 3));
  };
  if constexpr (T > 4) {
    four.template operator()<0, 4>();
    four.template operator()<4, T - 4>();
  } else {
    four.template operator()<0, T>();
  }
}

/// Adds the products of vectors [begin, end) of T tokens to their sums, which the first pass begins and the
/// last one writes out.
template <Dots kForm, SumMode mode, int T>
void micro(const Block& b, std::int64_t begin, std::int64_t end) {
  if constexpr (in_halves<kForm, mode, T>()) {
    constexpr int kFirst = (T + 1) / 2;
    micro<kForm, mode, kFirst>(b, begin, end);
    Block other = b;
    other.x += kFirst;
    other.y += kFirst;
    other.sums += kFirst * kRows * 16;
    return micro<kForm, mode, T - kFirst>(other, begin, end);
  }
  __m512 acc[T][kRows], part[T][kRows];
  simd::clear<T>(acc);
  if (b.started) simd::load<T>(b.sums, acc);
  if constexpr (mode == SumMode::kRunning) {
    for (std::int64_t v = begin; v < end; ++v) add_vector<kForm, T>(b.w, b.x, v, acc);
  } else {
    constexpr bool kInMemory = T > 3;
    if constexpr (kInMemory) simd::store<T>(acc, b.sums);
    for (std::int64_t v = begin; v < end; v += 4) {
      simd::clear<T>(part);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) add_vector<kForm, T>(b.w, b.x, v + j, part);
      if constexpr (kInMemory) simd::load<T>(b.sums, acc);
      add_parts<mode, T>(part, b.scale, v, acc);
      if constexpr (kInMemory) simd::store<T>(acc, b.sums);
    }
  }
  if (b.finished) {
    finish<T>(b, acc);
  } else {
    simd::store<T>(acc, b.sums);
  }
}

/// Some tokens of a block: T sums of each row, in registers from the first vector of a pass to its last.
template <int T>
struct Side {
  Block block;
  __m512 sum[T][kRows];

  SEEKLINE_MEMBER void start(const Block& all, int first) {
    block = all;
    block.x += first;
    block.y += first;
    block.sums += first * kRows * 16;
    simd::clear<T>(sum);
    if (block.started) simd::load<T>(block.sums, sum);
  }
  SEEKLINE_MEMBER void add(std::int64_t v) { add_vector<Dots::kInstruction, T>(block.w, block.x, v, sum); }
  SEEKLINE_MEMBER void end() { block.finished ? finish<T>(block, sum) : simd::store<T>(sum, block.sums); }
};

/// A pass over all groups of a tile in which the last tokens follow the first ones half a group behind: while
/// the sums of some are added up and written, the products of the others go on. `block_at(g)` gives group g.
template <int kFirst, int kLast, class BlockAt>
SEEKLINE_SIMD void staggered(const BlockAt& block_at, std::int64_t groups, std::int64_t begin,
                             std::int64_t end) {
  const std::int64_t length = end - begin, half = length / 2, rest = length - half;
  Side<kFirst> first;
  Side<kLast> last;
  first.start(block_at(0), 0);
  for (std::int64_t i = 0; i < half; ++i) first.add(begin + i);
  for (std::int64_t g = 0; g < groups; ++g) {
    last.start(first.block, kFirst);
#pragma GCC unroll 2
    for (std::int64_t i = 0; i < rest; ++i) {
      first.add(begin + half + i);
      last.add(begin + i);
    }
    first.end();
    if (g + 1 < groups) {
      first.start(block_at(g + 1), 0);
#pragma GCC unroll 2
      for (std::int64_t i = 0; i < half; ++i) {
        first.add(begin + i);
        last.add(begin + rest + i);
      }
    } else {
      for (std::int64_t i = 0; i < half; ++i) last.add(begin + rest + i);
    }
    last.end();
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

template <Dots kForm, SumMode mode>
void multiply_tile(const Matmul& m, const WeightTile& tile, float* sums, simd::Ahead ahead) {
  using Micro = void(const Block&, std::int64_t, std::int64_t);
  static constexpr Micro* kMicros[kMostTokens] = {micro<kForm, mode, 1>, micro<kForm, mode, 2>,
                                                  micro<kForm, mode, 3>, micro<kForm, mode, 4>,
                                                  micro<kForm, mode, 5>, micro<kForm, mode, 6>};
  const simd::Passes passes(m.tokens, kMostTokens);
  const std::int64_t length = tile.end - tile.begin, deep = even_part(length, depth(kForm, mode));
  const std::int64_t groups = (tile.rows + kRows - 1) / kRows, group_sums = kMostTokens * kRows * 16;
  const std::int64_t pass_sums = length < tile.vectors ? groups * group_sums : 0;
  ahead.per_call = ahead.lines / (groups * passes.count * ((length + deep - 1) / deep)) + 1;
  for (int pass = 0; pass < passes.count; ++pass) {
    const std::int64_t token = passes.first(pass), tokens = passes.tokens(pass);
    const std::uint8_t* x[kMostTokens];  // from the tile's first vector on
    for (std::int64_t t = 0; t < tokens; ++t) x[t] = m.x[token + t] + tile.begin * x_vector_bytes(kForm);
    for (std::int64_t begin = 0; begin < length; begin += deep) {
      const std::int64_t end = begin + deep < length ? begin + deep : length;
      const bool on = end < length;  // the next pass takes the next vectors of these tokens
      const std::int64_t next = on ? token : token + tokens, first = on ? end : 0;
      const std::int64_t last = first + deep < length ? first + deep : length;
      const std::int64_t count = on ? tokens : pass + 1 < passes.count ? passes.tokens(pass + 1) : 0;
      const auto block_at = [&](std::int64_t g) __attribute__((always_inline)) {
        ahead.fetch();
        if constexpr (kForm == Dots::kFusedPairs)
          fetch_x<kForm>(m, next, count, tile.begin + first, tile.begin + last, g, groups);
        const std::int64_t r = g * kRows;
        return Block{tile.row + r,
                     tile.scale + r,
                     x,
                     m.y + token,
                     sums + pass * pass_sums + g * group_sums,
                     tile.first + r,
                     tile.rows - r < kRows ? tile.rows - r : kRows,
                     tile.factor,
                     m.accumulate,
                     tile.begin + begin > 0,
                     tile.begin + end == tile.vectors};
      };
      if constexpr (kForm == Dots::kInstruction && mode == SumMode::kRunning) {
        if (tokens == kMostTokens && end - begin <= kStaggered) {
          staggered<4, kMostTokens - 4>(block_at, groups, begin, end);
          continue;
        }
      }
      for (std::int64_t g = 0; g < groups; ++g) kMicros[tokens - 1](block_at(g), begin, end);
    }
  }
}

template <Dots kForm>
void multiply_tile(const Matmul& m, const WeightTile& tile, float* sums, simd::Ahead ahead) {
  switch (tile.mode) {
    case SumMode::kRunning:
      return multiply_tile<kForm, SumMode::kRunning>(m, tile, sums, ahead);
    case SumMode::kChained:
      return multiply_tile<kForm, SumMode::kChained>(m, tile, sums, ahead);
    case SumMode::kChainedScaled:
      return multiply_tile<kForm, SumMode::kChainedScaled>(m, tile, sums, ahead);
  }
}

/// All rows for tokens whose sums may wait.
void multiply_rows(const Matmul& m, Dots form) {
  const std::int64_t vectors = row_vectors(m.w.kind, m.w.cols), row_bytes = weight_row_bytes(m.w);
  const std::int64_t most = tile_rows(form, tile_pitch(form, vectors));
  const std::int64_t cut = even_part(vectors, kMostTileVectors);
  float* sums = reinterpret_cast<float*>(m.scratch);
  std::uint8_t* decoded = m.scratch + sums_bytes(vectors);
  std::int64_t rows = 0;
  for (std::int64_t row = m.row_begin; row < m.row_end; row += rows) {
    rows = rows_of_tile(m, row, most);
    const std::int64_t next = m.row_end - row - rows < most ? m.row_end - row - rows : most;
    const std::uint8_t* after = next > 0 ? m.w.data + (row + rows) * row_bytes : m.prefetch;
    const std::int64_t lines = (next > 0 ? next * row_bytes : after ? m.prefetch_bytes : 0) / 64;
    for (std::int64_t begin = 0; begin < vectors; begin += cut) {
      const std::int64_t end = begin + cut < vectors ? begin + cut : vectors;
      const WeightTile tile = make_tile(m, form, row, rows, begin, end, decoded);
      const std::int64_t from = lines * begin / vectors, to = lines * end / vectors;  // each cut its share
      const simd::Ahead ahead{after + from * 64, to - from, 0};
      form == Dots::kInstruction ? multiply_tile<Dots::kInstruction>(m, tile, sums, ahead)
                                 : multiply_tile<Dots::kFusedPairs>(m, tile, sums, ahead);
    }
  }
}

}  // namespace

std::int64_t matmul_scratch_bytes(std::int64_t k) {
  const std::int64_t vectors = row_vectors(WeightKind::kE4M3, k);
  const Dots form = dots();
  const std::int64_t pitch = tile_pitch(form, vectors);
  const std::int64_t many = tile_room(form, pitch) + sums_bytes(vectors);
  const std::int64_t few = kMostStreamed * row_pitch(vectors * x_vector_bytes(form)),
                     plain = avx512::matmul_scratch_bytes(k);
  const std::int64_t own = many > few ? many : few;
  return own > plain ? own : plain;
}

void matmul_many(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  const Dots form = dots();
  const bool cut = row_vectors(m.w.kind, m.w.cols) > kMostTileVectors;
  const simd::Passes passes(m.tokens, cut ? kWaiting : m.tokens);
  for (int pass = 0; pass < passes.count; ++pass) {
    Matmul part = m;
    part.x += passes.first(pass);
    part.y += passes.first(pass);
    part.tokens = passes.tokens(pass);
    multiply_rows(part, form);
  }
}

}  // namespace seekline::avx512bf16
