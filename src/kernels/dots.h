// How the AVX512-BF16 level adds products of bf16 pairs: with the instruction made for it, or, with the same
// bits, as two fused f32 products.
#pragma once

#include <cstdint>

namespace seekline {

/// VDPBF16PS adds the product of the odd words to a lane, then that of the even ones, each rounded once: what
/// two fused products of f32 do. Which is faster is the CPU's affair: one instruction a cycle on Zen 4; on
/// some Intel CPUs it blocks both vector ports for more than two, in which four fused products are done.
enum class Dots : std::uint8_t { kInstruction, kFusedPairs };

/// The form in force. Decided at the first call: fused pairs where they are faster here and give the
/// instruction's bits on vectors that tell roundings apart. Only where the CPU has AVX512-BF16.
Dots dots();
/// Whether both forms round alike on this CPU, by vectors that tell them apart.
bool dots_agree();
/// For tests and benches, on no other thread's time: rows prepared in one form are of no use to the other.
void use_dots(Dots form);

}  // namespace seekline
