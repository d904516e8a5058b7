// The numeric settings of a model run; design: docs/exactness.md.
#pragma once

#include <cstdint>

namespace seekline {

/// `reference` sends the input of each quantized layer through the block quantizer the model was trained
/// with.
enum class Activations : std::uint8_t { kReference, kPlain };
/// Cache rows: the family's deployed formats, bf16, f32 (no row or index quantizer at all), or fp8: the
/// format of V3.2 in V2 and V3, whose deployed rows are bf16 (other families refuse it).
enum class Rows : std::uint8_t { kDeployed, kBF16, kF32, kFp8 };
/// `fast` may round queries, softmax weights and product inputs to bf16; `f32` rounds nothing.
enum class Arithmetic : std::uint8_t { kFast, kF32 };

/// In which order the products of latent attention (V2, V3, V3.2) are made: equal by algebra, not in their
/// last bits.
enum class LatentOrder : std::uint8_t {
  kAuto,      ///< one order for all tokens of a model, by its geometry: the cheaper one for a decode step
  kAbsorb,    ///< queries and outputs go through kv_b_proj; heads attend to the latent itself
  kExpand,    ///< keys and values of every head are rebuilt from the cached latents
  kPreMerge,  ///< as absorb, with kv_b_proj merged into its neighbours at load: larger weights
  kByCost,    ///< expand or absorb for each run by its length: bits depend on how a text is cut into runs
};

struct NumericSettings {
  Activations activations = Activations::kReference;
  Rows rows = Rows::kDeployed;
  Arithmetic arithmetic = Arithmetic::kFast;
  LatentOrder latent_order = LatentOrder::kAuto;
};

}  // namespace seekline
