// Element types, one value at a time: the truth for everything faster. Rules: docs/cache-formats.md.
// All encoders round to nearest, ties to even.
#pragma once

#include <cstdint>

namespace seekline {

float bf16_to_f32(std::uint16_t bits);
/// IEEE: f32 from 0x7F7F8000 up gives infinity, subnormals are kept, NaN stays NaN (quiet).
std::uint16_t f32_to_bf16(float value);

float f16_to_f32(std::uint16_t bits);

/// e4m3fn: bias 7, largest 448, no infinity, NaN = 0x7F and 0xFF.
float e4m3_to_f32(std::uint8_t code);
/// Saturates (infinity included) at +-448; NaN gives 0x7F or 0xFF by its sign.
std::uint8_t f32_to_e4m3(float value);

/// e2m1: the low four bits of `code`; sign << 3 | index into {0, 0.5, 1, 1.5, 2, 3, 4, 6}.
float e2m1_to_f32(std::uint8_t code);
/// Saturates (infinity included) at +-6. NaN has no code: it is our own error to ask.
std::uint8_t f32_to_e2m1(float value);

/// 2^(code - 127); 0 gives the subnormal 2^-127, 255 is NaN.
float ue8m0_to_f32(std::uint8_t code);
/// The smallest power of two that is >= x, as ue8m0; x finite and > 0.
std::uint8_t ue8m0_ceil(float x);

}  // namespace seekline
