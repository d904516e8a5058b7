// Block scales that are no numbers: one such byte turns a whole block of weights, and soon all logits, into
// NaN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace seekline {

/// Up to this many bytes of scales are looked at while a model loads. Larger checkpoints would have to be
/// read from disk for it; there the check runs when logits turn out not to be finite.
constexpr std::int64_t kScaleBytesCheckedAtLoad = 64'000'000;

/// Bytes of all scale tensors: F8_E8M0, and F32 named "….weight_scale_inv".
std::int64_t scale_bytes(const Checkpoint& checkpoint);

/// Reads all scale tensors; one sentence for each that holds a NaN or an infinity.
std::vector<std::string> find_bad_scales(const Checkpoint& checkpoint);

}  // namespace seekline
