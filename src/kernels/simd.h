// What every vector file needs. Helpers are static and always inlined (kernels/levels.h says why).
#pragma once

#include <immintrin.h>

#include <cstdint>

#define SEEKLINE_SIMD static inline __attribute__((always_inline))
#define SEEKLINE_MEMBER inline __attribute__((always_inline))
