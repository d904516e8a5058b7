// The three numeric settings of a model run; design: docs/exactness.md.
#pragma once

#include <cstdint>

namespace seekline {

/// `reference` sends the input of each quantized layer through the block quantizer the model was trained with.
enum class Activations : std::uint8_t { kReference, kPlain };
/// Cache rows: the family's deployed formats, bf16, or f32 (no row or index quantizer at all).
enum class Rows : std::uint8_t { kDeployed, kBF16, kF32 };
/// `fast` may round queries, softmax weights and product inputs to bf16; `f32` rounds nothing.
enum class Arithmetic : std::uint8_t { kFast, kF32 };

struct NumericSettings {
  Activations activations = Activations::kReference;
  Rows rows = Rows::kDeployed;
  Arithmetic arithmetic = Arithmetic::kFast;
};

}  // namespace seekline
