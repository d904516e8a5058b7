#include "attention/softmax_state.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace seekline {

AttendState start_softmax(float* out, int width) {
  std::memset(out, 0, static_cast<std::size_t>(width) * sizeof(float));
  return {-std::numeric_limits<float>::infinity(), 0.0f, out};
}

void merge_softmax(const Kernels& kernels, AttendState& total, const AttendState& part, int width) {
  if (part.sum == 0) return;
  if (total.sum == 0) {
    total.max = part.max;
    total.sum = part.sum;
    std::memcpy(total.out, part.out, static_cast<std::size_t>(width) * sizeof(float));
    return;
  }
  const float max = std::max(total.max, part.max);
  float factor[2] = {total.max - max, part.max - max};
  kernels.exp(factor, 2, factor);
  for (int i = 0; i < width; ++i) total.out[i] = total.out[i] * factor[0] + part.out[i] * factor[1];
  total.sum = total.sum * factor[0] + part.sum * factor[1];
  total.max = max;
}

void finish_softmax(const Kernels& kernels, const AttendState& state, const float* sink, int width) {
  if (state.sum == 0) return;
  float denominator = state.sum;
  if (sink) {
    const float x = *sink - state.max;
    float e;
    kernels.exp(&x, 1, &e);
    denominator += e;
  }
  for (int i = 0; i < width; ++i) state.out[i] /= denominator;
}

}  // namespace seekline
