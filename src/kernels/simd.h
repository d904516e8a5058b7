// What every vector file needs. Helpers are static and always inlined (kernels/levels.h says why).
#pragma once

#include <immintrin.h>

#include <cstdint>

#define SEEKLINE_SIMD static inline __attribute__((always_inline))
#define SEEKLINE_MEMBER inline __attribute__((always_inline))

namespace seekline::simd {

/// Keeps a vector in a register: g++ would rather load it again for every use.
template <typename Vector>
SEEKLINE_SIMD void in_register(Vector& v) {
  __asm__("" : "+v"(v));
}

/// A ue8m0 code as the power of two it stands for; 0 is 2^-127, a subnormal f32, and 255 infinite.
SEEKLINE_SIMD float power_of(std::uint32_t code) {
  return __builtin_bit_cast(float, code == 0 ? 0x400000u : code << 23);
}

/// Asks memory for a line that is read later, to lie in the second cache: what comes from memory on its way
/// to the first one takes the few buffers there that products need for x.
SEEKLINE_SIMD void fetch_line(const void* line) { _mm_prefetch(static_cast<const char*>(line), _MM_HINT_T1); }

/// The next weights of memory, fetched a few lines at a time while others are multiplied.
struct Ahead {
  const std::uint8_t* at;
  std::int64_t lines, per_call;
  SEEKLINE_MEMBER void fetch() {
    for (std::int64_t i = 0; i < per_call && lines > 0; ++i, --lines, at += 64) fetch_line(at);
  }
};

}  // namespace seekline::simd
