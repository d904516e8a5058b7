// Few tokens: weights are decoded in registers, some rows at a time, and read once.
//
// One token streams whole rows. Of several, x would not stay in the first cache: some columns of a block of
// rows come first, then the next columns; the sums wait in memory meanwhile. Either way a row's steps are
// added in the same order.
#include "core/check.h"
#include "kernels/avx512bf16.h"
#include "kernels/line_kinds_avx512bf16.h"
#include "kernels/row_pitch.h"

namespace seekline::avx512bf16 {
namespace {

/// Rows at a time: no more sums than registers, with kFewTokens tokens.
constexpr int kRows = 4;
/// Rows whose sums wait in the first cache, beside this much of the tokens' x.
constexpr std::int64_t kBlockRows = 16, kBlockX = 16 << 10;
/// Bytes between a line that is read and the line of its row that is fetched with it.
constexpr std::int64_t kAhead = 1024;

/// Up to kRows neighbouring rows; missing ones repeat the last.
struct Group {
  const std::uint8_t* row[kRows];
  const std::uint8_t* scales[kRows];
  std::int64_t first;
  int rows;
};

template <class Lines>
SEEKLINE_SIMD Group group_at(const Matmul& m, const Lines& lines, std::int64_t first) {
  const std::int64_t bytes = weight_row_bytes(m.w);
  Group g;
  g.first = first;
  g.rows = m.row_end - first < kRows ? static_cast<int>(m.row_end - first) : kRows;
  for (int r = 0; r < kRows; ++r) {
    const std::int64_t row = first + (r < g.rows ? r : g.rows - 1);
    g.row[r] = m.w.data + row * bytes;
    g.scales[r] = lines.scales_of(row);
  }
  return g;
}

enum class Cache { kFirst, kSecond };

template <Cache kCache>
SEEKLINE_SIMD void fetch(const std::uint8_t* p) {
  if constexpr (kCache == Cache::kFirst) {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0);
  } else {
    _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T1);
  }
}

/// Adds the bytes [begin, end) of a group's rows; ahead[r] + at is the line to fetch beside the one at `at`.
template <Dots kForm, Cache kCache, class Lines, int T>
SEEKLINE_SIMD void add_span(const Lines& lines, const Group& g, std::int64_t begin, std::int64_t end,
                            const std::uint8_t* const* ahead, const std::uint8_t* const* x,
                            __m512 (&sum)[kRows][T]) {
  using Step = decltype(lines.load(nullptr, 0));
  const auto step = [&](std::int64_t at, std::int64_t left) __attribute__((always_inline)) {
    const std::int64_t index = at / Lines::kBytes, vector = index * Lines::kVectors;
    Step row[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      row[r] = lines.load(g.row[r] + at, left);
#pragma GCC unroll 2
      for (std::int64_t line = 0; line < Lines::kBytes; line += 64) fetch<kCache>(ahead[r] + at + line);
    }
    if constexpr (Lines::kChained) {
      __m512 part[kRows][T];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) part[r][t] = _mm512_setzero_ps();
      lines.template add<kForm>(row, vector, x, part);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m512 s = lines.scale(g.scales[r], index);
#pragma GCC unroll 4
        for (int t = 0; t < T; ++t) sum[r][t] = _mm512_fmadd_ps(part[r][t], s, sum[r][t]);
      }
    } else {
      lines.template add<kForm>(row, vector, x, sum);
    }
  };
  std::int64_t at = begin;
  for (; at + Lines::kBytes <= end; at += Lines::kBytes) step(at, Lines::kBytes);
  if (at < end) step(at, end - at);
}

template <int T>
SEEKLINE_SIMD void finish(const Matmul& m, const Group& g, __m512 (&sum)[kRows][T]) {
  const auto mask = static_cast<__mmask8>((1u << g.rows) - 1);
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    __m128 y = simd::reduce4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]);
    float* out = m.y[t] + g.first;
    if (m.accumulate) y = _mm_add_ps(_mm_maskz_loadu_ps(mask, out), y);
    _mm_mask_storeu_ps(out, mask, y);
  }
}

/// One token. Lines are fetched into the first cache a little ahead, near the end of a row those of the rows
/// that come next. Chained kinds take longer to decode: theirs are fetched into the second cache while the
/// rows before are decoded.
template <Dots kForm, class Lines>
void stream(const Matmul& m, const Lines& lines, const std::uint8_t* const* x) {
  const std::int64_t bytes = weight_row_bytes(m.w), within = bytes > kAhead ? (bytes - kAhead) / 64 * 64 : 0;
  for (std::int64_t o = m.row_begin; o < m.row_end; o += kRows) {
    const Group g = group_at(m, lines, o);
    const std::uint8_t* next = o + kRows < m.row_end ? m.w.data + (o + kRows) * bytes : m.prefetch;
    const std::uint8_t *in_row[kRows], *in_next[kRows];
    __m512 sum[kRows][1];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      in_row[r] = g.row[r] + kAhead;
      in_next[r] = (next ? next + r * bytes : g.row[r]) - (Lines::kChained ? 0 : within);
      sum[r][0] = _mm512_setzero_ps();
    }
    if constexpr (Lines::kChained) {
      add_span<kForm, Cache::kSecond>(lines, g, 0, bytes, in_next, x, sum);
    } else {
      add_span<kForm, Cache::kFirst>(lines, g, 0, within, in_row, x, sum);
      add_span<kForm, Cache::kFirst>(lines, g, within, bytes, in_next, x, sum);
    }
    finish(m, g, sum);
  }
}

/// Several tokens: columns in parts whose x stays in the first cache, each for all rows of a block. The lines
/// of a group are fetched while the group before is multiplied.
template <Dots kForm, int T, class Lines>
void blocks(const Matmul& m, const Lines& lines, const std::uint8_t* const* x) {
  constexpr std::int64_t kStepX = Lines::kVectors * x_vector_bytes(kForm) * T;
  constexpr std::int64_t kPart = kBlockX / kStepX * Lines::kBytes;
  static_assert(kPart > 0);
  const std::int64_t bytes = weight_row_bytes(m.w);
  alignas(64) float sums[kBlockRows / kRows][kRows][T][16];
  for (std::int64_t first = m.row_begin; first < m.row_end; first += kBlockRows) {
    const std::int64_t last = m.row_end - first < kBlockRows ? m.row_end : first + kBlockRows;
    const std::uint8_t* after = last < m.row_end ? m.w.data + last * bytes : m.prefetch;
    for (std::int64_t begin = 0; begin < bytes; begin += kPart) {
      const std::int64_t end = bytes - begin < kPart ? bytes : begin + kPart;
      for (std::int64_t o = first; o < last; o += kRows) {
        const Group g = group_at(m, lines, o);
        auto& waiting = sums[(o - first) / kRows];
        // What is read next: the next rows' same columns, these rows' next ones, or the block after.
        const std::uint8_t* next = o + kRows < last ? m.w.data + (o + kRows) * bytes
                                   : end < bytes    ? m.w.data + first * bytes + kPart
                                   : after          ? after - begin
                                                    : g.row[0];
        const std::uint8_t* ahead[kRows];
        __m512 sum[kRows][T];
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) {
          ahead[r] = next + r * bytes;
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t)
            sum[r][t] = begin == 0 ? _mm512_setzero_ps() : _mm512_load_ps(waiting[r][t]);
        }
        add_span<kForm, Cache::kFirst>(lines, g, begin, end, ahead, x, sum);
        if (end == bytes) {
          finish(m, g, sum);
          continue;
        }
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
          for (int t = 0; t < T; ++t) _mm512_store_ps(waiting[r][t], sum[r][t]);
      }
    }
  }
}

template <Dots kForm, int T, class Lines>
SEEKLINE_SIMD void rows(const Matmul& m, const Lines& lines, const std::uint8_t* const* x) {
  if constexpr (T == 1) {
    stream<kForm>(m, lines, x);
  } else {
    blocks<kForm, T>(m, lines, x);
  }
}

/// A prepared vector of x times the scales of the words' blocks, exactly.
template <Dots kForm>
SEEKLINE_SIMD void scale_x(const std::uint8_t* x, __m512i shift, std::uint8_t* out) {
  if constexpr (kForm == Dots::kInstruction) {
    _mm512_storeu_si512(out, scale_words(_mm512_loadu_si512(x), shift));
  } else {
    // The even word of a lane tells its power of two; 2^p as an f32.
    const __m512 scale =
        _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(shift, 16), _mm512_set1_epi32(0x3F800000)));
    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_loadu_ps(x), scale));
    _mm512_storeu_ps(out + 64, _mm512_mul_ps(_mm512_loadu_ps(x + 64), scale));
  }
}

/// Rows of a block share their scales: x takes them once for all of those rows, exactly.
template <Dots kForm, int T>
void few_e4m3(const Matmul& m) {
  constexpr std::int64_t kX = x_vector_bytes(kForm);
  const std::int64_t steps = (m.w.cols + 63) / 64, pitch = row_pitch(steps * 2 * kX);
  const std::uint8_t* x[T];
  for (int t = 0; t < T; ++t) x[t] = m.scratch + t * pitch;
  const std::int64_t scale_cols = (m.w.cols + m.w.block_cols - 1) / m.w.block_cols;
  const RunningLines<E4M3Step> lines;
  Matmul part = m;
  for (std::int64_t o = m.row_begin; o < m.row_end; o = part.row_end) {
    const std::int64_t block = o / m.w.block_rows;
    part.row_begin = o;
    part.row_end = (block + 1) * m.w.block_rows;
    part.prefetch = m.w.data + part.row_end * m.w.cols;
    if (part.row_end >= m.row_end) {
      part.row_end = m.row_end;
      part.prefetch = m.prefetch;
    }
    for (std::int64_t s = 0; s < steps; ++s) {
      const __m512i shift = e4m3_shift(m.w, m.w.scales + block * scale_cols, s * 64);
      for (int t = 0; t < T; ++t)
        for (std::int64_t v = 2 * s; v < 2 * s + 2; ++v)
          scale_x<kForm>(m.x[t] + v * kX, shift, m.scratch + t * pitch + v * kX);
    }
    rows<kForm, T>(part, lines, x);
  }
}

template <Dots kForm, int T>
void few(const Matmul& m) {
  if (m.w.kind == WeightKind::kBF16) return rows<kForm, T>(m, RunningLines<BF16Step>{}, m.x);
  if (m.w.kind == WeightKind::kE2M1) return rows<kForm, T>(m, E2M1Lines(m.w), m.x);
  if (m.w.scale_kind == ScaleKind::kF32) return rows<kForm, T>(m, ScaledE4M3Lines(m.w), m.x);
  few_e4m3<kForm, T>(m);
}

template <Dots kForm>
void by_tokens(const Matmul& m) {
  static_assert(kFewTokens == 4);
  static constexpr void (*kByTokens[])(const Matmul&) = {few<kForm, 1>, few<kForm, 2>, few<kForm, 3>,
                                                         few<kForm, 4>};
  if (m.tokens > 0) kByTokens[m.tokens - 1](m);
}

}  // namespace

void matmul_few(const Matmul& m) {
  SEEKLINE_CHECK(m.w.scale_kind != ScaleKind::kF32 || m.w.block_cols == 128, "f32 scales lie on 128 columns");
  SEEKLINE_CHECK(m.w.kind != WeightKind::kE2M1 || m.w.block_cols == 32, "e2m1 scales lie on 32 columns");
  dots() == Dots::kInstruction ? by_tokens<Dots::kInstruction>(m) : by_tokens<Dots::kFusedPairs>(m);
}

}  // namespace seekline::avx512bf16
