// Lines of weights, a type for each kind: how a step of some bytes of several rows is multiplied with x.
//
// `load` takes a step of a row, of which `left` bytes lie within the row, into registers. `add` adds the
// products of a step of kRows rows with the prepared vectors of T tokens' x from `vector` on to
// acc[row][token]; each value of x is loaded once for all rows. Where a kind is chained, a step is a sum of
// its own, and `scale` gives the factors with which its lanes are added to the row's (`left` as for `load`).
#pragma once

#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"
#include "kernels/row_scales.h"

namespace seekline::avx512bf16 {

SEEKLINE_SIMD __m512i load_line(const std::uint8_t* p, std::int64_t left) {
  return left >= 64 ? _mm512_loadu_si512(p) : _mm512_maskz_loadu_epi8(simd::first64(left), p);
}

/// A step of one row: lines as they lie, or decoded to vectors of bf16.
template <int kVectors>
struct RowStep {
  __m512i v[kVectors];
};

/// acc[r][t] += w[r] * the 16 values at x[t] + at.
template <int T, int kRows>
SEEKLINE_SIMD void add_fused(const __m512 (&w)[kRows], const std::uint8_t* const* x, std::int64_t at,
                             __m512 (&acc)[kRows][T]) {
#pragma GCC unroll 4
  for (int t = 0; t < T; ++t) {
    __m512 xv = _mm512_loadu_ps(x[t] + at);
    simd::in_register(xv);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) acc[r][t] = _mm512_fmadd_ps(w[r], xv, acc[r][t]);
  }
}

/// The same for vector `i` of rows decoded to bf16 and prepared vector `vector` of x.
template <Dots kForm, int T, int kRows, int kVectors>
SEEKLINE_SIMD void add_vector(const RowStep<kVectors> (&rows)[kRows], int i, std::int64_t vector,
                              const std::uint8_t* const* x, __m512 (&acc)[kRows][T]) {
  const std::int64_t at = vector * x_vector_bytes(kForm);
  if constexpr (kForm == Dots::kInstruction) {
#pragma GCC unroll 4
    for (int t = 0; t < T; ++t) {
      __m512i words = _mm512_loadu_si512(x[t] + at);
      simd::in_register(words);
      const auto xv = reinterpret_cast<__m512bh>(words);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        acc[r][t] = _mm512_dpbf16_ps(acc[r][t], reinterpret_cast<__m512bh>(rows[r].v[i]), xv);
    }
  } else {
    __m512 odd[kRows], even[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) odd[r] = odd_words(rows[r].v[i]);
    add_fused(odd, x, at, acc);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) even[r] = even_words(rows[r].v[i]);
    add_fused(even, x, at + 64, acc);
  }
}

/// bf16, and e4m3 with x scaled already.
template <class Decoder>
struct RunningLines {
  static constexpr std::int64_t kBytes = 64, kVectors = Decoder::kVectors;
  static constexpr bool kChained = false;
  Decoder decoder;

  SEEKLINE_MEMBER const std::uint8_t* scales_of(std::int64_t) const { return nullptr; }
  SEEKLINE_MEMBER RowStep<kVectors> load(const std::uint8_t* p, std::int64_t left) const {
    RowStep<kVectors> step;
    decoder.expand(load_line(p, left), step.v);
    return step;
  }
  template <Dots kForm, int T, int kRows>
  SEEKLINE_MEMBER void add(const RowStep<kVectors> (&rows)[kRows], std::int64_t vector,
                           const std::uint8_t* const* x, __m512 (&acc)[kRows][T]) const {
#pragma GCC unroll 2
    for (int i = 0; i < kVectors; ++i) add_vector<kForm>(rows, i, vector + i, x, acc);
  }
};

/// e4m3 with f32 scales that have no factor in common: 128 columns are one sum.
struct ScaledE4M3Lines {
  static constexpr std::int64_t kBytes = 128, kVectors = 4;
  static constexpr bool kChained = true;
  E4M3Step decoder;
  const WeightView& w;

  SEEKLINE_MEMBER explicit ScaledE4M3Lines(const WeightView& weights) : w(weights) {}
  SEEKLINE_MEMBER const std::uint8_t* scales_of(std::int64_t row) const { return simd::row_scales(w, row); }
  SEEKLINE_MEMBER RowStep<4> load(const std::uint8_t* p, std::int64_t left) const {
    RowStep<4> step;
    decoder.expand(load_line(p, left), step.v);
    decoder.expand(load_line(p + 64, left - 64), step.v + 2);
    return step;
  }
  template <Dots kForm, int T, int kRows>
  SEEKLINE_MEMBER void add(const RowStep<4> (&rows)[kRows], std::int64_t vector, const std::uint8_t* const* x,
                           __m512 (&acc)[kRows][T]) const {
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) add_vector<kForm>(rows, i, vector + i, x, acc);
  }
  SEEKLINE_MEMBER __m512 scale(const std::uint8_t* scales, std::int64_t index, std::int64_t) const {
    float value;
    __builtin_memcpy(&value, scales + index * 4, 4);
    return _mm512_set1_ps(value);
  }
};

struct E2M1Lines {
  static constexpr std::int64_t kBytes = 64, kVectors = 4;
  static constexpr bool kChained = true;
  E2M1Step decoder;
  __m512 table;
  __m512i spread;
  const WeightView& w;
  std::int64_t blocks;

  SEEKLINE_MEMBER explicit E2M1Lines(const WeightView& weights)
      : w(weights), blocks((weights.cols + 31) / 32) {
    table = _mm512_load_ps(kE2M1Values.f32);
    // Scale byte b of the four to byte 2 of the lanes 4b .. 4b + 3; 7 places further it is an f32 exponent.
    const __m512i lane = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    spread = _mm512_or_si512(_mm512_slli_epi32(lane, 16), _mm512_set1_epi32(static_cast<int>(0x80008080)));
  }
  SEEKLINE_MEMBER const std::uint8_t* scales_of(std::int64_t row) const { return w.scales + row * blocks; }
  SEEKLINE_MEMBER RowStep<1> load(const std::uint8_t* p, std::int64_t left) const {
    RowStep<1> step{{load_line(p, left)}};
    simd::in_register(step.v[0]);
    return step;
  }
  /// Fused pairs take each weight from the table as an f32: the odd words of vector j are nibbles 4 + j of
  /// the 32-bit lanes, the even ones nibbles j.
  template <Dots kForm, int T, int kRows>
  SEEKLINE_MEMBER void add(const RowStep<1> (&rows)[kRows], std::int64_t vector, const std::uint8_t* const* x,
                           __m512 (&acc)[kRows][T]) const {
    if constexpr (kForm == Dots::kInstruction) {
      RowStep<4> decoded[kRows];
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) decoder.expand(rows[r].v[0], decoded[r].v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) add_vector<kForm>(decoded, i, vector + i, x, acc);
    } else {
      const std::int64_t at = vector * x_vector_bytes(kForm);
      add_nibbles<0>(rows, x, at, acc);
      add_nibbles<1>(rows, x, at + 128, acc);
      add_nibbles<2>(rows, x, at + 256, acc);
      add_nibbles<3>(rows, x, at + 384, acc);
    }
  }
  SEEKLINE_MEMBER __m512 scale(const std::uint8_t* scales, std::int64_t index, std::int64_t left) const {
    int bytes;
    if (left >= kBytes) {
      __builtin_memcpy(&bytes, scales + 4 * index, 4);
    } else {
      bytes = static_cast<int>(e2m1_scale_bytes(scales, 4 * index, blocks));
    }
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_shuffle_epi8(_mm512_set1_epi32(bytes), spread), 7));
  }

 private:
  template <int kNibble, int T, int kRows>
  SEEKLINE_MEMBER void add_nibbles(const RowStep<1> (&rows)[kRows], const std::uint8_t* const* x,
                                   std::int64_t at, __m512 (&acc)[kRows][T]) const {
    __m512i at_zero[kRows];
    __m512 weights[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      at_zero[r] = kNibble == 0 ? rows[r].v[0] : _mm512_srli_epi32(rows[r].v[0], 4 * kNibble);
      weights[r] =
          _mm512_castsi512_ps(_mm512_maskz_permutexvar_epi16(0xAAAAAAAAu, at_zero[r], decoder.table));
    }
    add_fused(weights, x, at, acc);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)  // vpermps looks at the lowest 4 bits
      weights[r] = _mm512_permutexvar_ps(at_zero[r], table);
    add_fused(weights, x, at + 64, acc);
  }
};

}  // namespace seekline::avx512bf16
