#include "formats/hadamard.h"

#include <bit>
#include <cmath>

#include "core/check.h"

namespace seekline {

void hadamard(std::span<float> x) {
  SEEKLINE_CHECK(std::has_single_bit(x.size()), "a Hadamard transform needs a power of two");
  for (std::size_t half = 1; half < x.size(); half *= 2) {
    for (std::size_t first = 0; first < x.size(); first += 2 * half) {
      for (std::size_t i = first; i < first + half; ++i) {
        const float a = x[i], b = x[i + half];
        x[i] = a + b;
        x[i + half] = a - b;
      }
    }
  }
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(x.size())));
  for (float& value : x) value *= scale;
}

}  // namespace seekline
