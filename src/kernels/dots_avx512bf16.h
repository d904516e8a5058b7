// Products of bf16 pairs in both forms (kernels/dots.h), for the files of this level.
//
// A prepared vector of x is 32 words of bf16 for the instruction, and for fused pairs 16 f32, the odd words,
// and 16 more, the even ones.
#pragma once

#include "kernels/dots.h"
#include "kernels/simd.h"

namespace seekline::avx512bf16 {

SEEKLINE_SIMD __m512 odd_words(__m512i v) {
  return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32(static_cast<int>(0xFFFF0000u))));
}
SEEKLINE_SIMD __m512 even_words(__m512i v) { return _mm512_castsi512_ps(_mm512_slli_epi32(v, 16)); }

constexpr std::int64_t x_vector_bytes(Dots form) { return form == Dots::kInstruction ? 64 : 128; }

SEEKLINE_SIMD void store_x(Dots form, __m512i v, std::uint8_t* out) {
  if (form == Dots::kInstruction) {
    _mm512_storeu_si512(out, v);
  } else {
    _mm512_storeu_ps(out, odd_words(v));
    _mm512_storeu_ps(out + 64, even_words(v));
  }
}

/// While it lives, this thread takes and gives subnormal f32 as 0, as the instruction always does.
class NoSubnormals {
 public:
  SEEKLINE_MEMBER NoSubnormals() : before_(_mm_getcsr()) { _mm_setcsr(before_ | 0x8040); }
  SEEKLINE_MEMBER ~NoSubnormals() { _mm_setcsr(before_); }
  NoSubnormals(const NoSubnormals&) = delete;
  NoSubnormals& operator=(const NoSubnormals&) = delete;

 private:
  unsigned before_;
};

}  // namespace seekline::avx512bf16
