// Softmax states that are started, merged and finished in a fixed order.
#pragma once

#include "kernels/table.h"

namespace seekline {

/// The state of no row, with its output set to zero.
AttendState start_softmax(float* out, int width);

/// total <- total and then part.
void merge_softmax(const Kernels& kernels, AttendState& total, const AttendState& part, int width);

/// Divides the output by the softmax denominator, the share of `sink` (may be null) included. Without any row
/// it stays zero.
void finish_softmax(const Kernels& kernels, const AttendState& state, const float* sink, int width);

}  // namespace seekline
