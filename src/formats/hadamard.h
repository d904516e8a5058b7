// The Walsh-Hadamard transform that index queries and keys go through.
#pragma once

#include <span>

namespace seekline {

/// In place: x <- x * H * n^-1/2, H in natural (Sylvester) order, n = x.size() a power of two.
void hadamard(std::span<float> x);

}  // namespace seekline
