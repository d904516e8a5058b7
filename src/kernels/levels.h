// The tables that dispatch chooses from, and the proof each must pass. Only for kernels/table.cc and tests.
//
// A file named *_<level>.cc is compiled with that level's flags (flags.cmake), so nothing in it may run
// before dispatch has asked the CPU, and it must not instantiate inline functions that other files share: the
// linker keeps one copy of those, and it might be the one with instructions this CPU lacks. Hence static,
// always-inlined helpers.
#pragma once

#include <optional>
#include <string>

#include "kernels/table.h"

namespace seekline {

extern const Kernels kPortableKernels;
extern const Kernels kAvx2Kernels;
extern const Kernels kAvx512Kernels;
extern const Kernels kAvx512Bf16Kernels;

/// Runs every function of `level` on small vectors beside the scalar truth. What is wrong, or nothing.
std::optional<std::string> kernel_problem(const Kernels& level);

}  // namespace seekline
