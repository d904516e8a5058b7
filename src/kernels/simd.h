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

/// The next weights of memory, fetched a few lines at a time while others are multiplied.
struct Ahead {
  const std::uint8_t* at;
  std::int64_t lines, per_call;
  SEEKLINE_MEMBER void fetch() {
    for (std::int64_t i = 0; i < per_call && lines > 0; ++i, --lines, at += 64)
      _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T1);
  }
};

}  // namespace seekline::simd
