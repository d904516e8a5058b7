// The kernels of `arithmetic f32`.
#pragma once

#include "kernels/table.h"

namespace seekline {

/// A table whose values are within one f32 rounding of the true ones at every step, and bit-equal on every
/// vector level: the truth that the fast tables are measured against. Same contract and same errors as
/// kernels().
const Kernels& exact_kernels();

}  // namespace seekline
