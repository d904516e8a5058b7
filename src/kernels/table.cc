#include "kernels/table.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/levels.h"
#include "seekline/error.h"

namespace seekline {
namespace {

struct Level {
  Isa isa;
  const char* name;
  const Kernels* kernels;
};

// Best last.
constexpr std::array kLevels{Level{Isa::kPortable, "portable", &kPortableKernels},
                             Level{Isa::kAvx2, "avx2", &kAvx2Kernels},
                             Level{Isa::kAvx512, "avx512", &kAvx512Kernels},
                             Level{Isa::kAvx512Bf16, "avx512bf16", &kAvx512Bf16Kernels}};

const Kernels& proven(const Level& level) {
  if (const auto problem = kernel_problem(*level.kernels))
    throw Error(ErrorCode::kInternal,
                fmt::format("the {} kernels give wrong results on this machine ({}); set "
                            "SEEKLINE_ISA to a lower level and report this",
                            level.name, *problem));
  return *level.kernels;
}

const Level& best_level() {
  std::size_t best = 0;
  for (std::size_t i = 0; i < kLevels.size(); ++i)
    if (isa_supported(kLevels[i].isa)) best = i;
  return kLevels[best];
}

const Level& level_named(const std::string& name) {
  std::string known;
  for (const Level& level : kLevels) {
    if (level.name == name) return level;
    known += (known.empty() ? "" : ", ") + std::string(level.name);
  }
  throw Error(ErrorCode::kUsage, fmt::format("SEEKLINE_ISA is \"{}\"; expected one of {}", name, known));
}

const Kernels& choose() {
  const char* forced = std::getenv("SEEKLINE_ISA");
  return forced && *forced ? kernels_at(level_named(forced).isa) : proven(best_level());
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512bf16";
  }
  return "?";
}

#if defined(__x86_64__)
// Not a name that every compiler's __builtin_cpu_supports knows.
static bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

bool isa_supported(Isa isa) {
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  switch (isa) {
    case Isa::kPortable:
      return true;
    case Isa::kAvx2:
      return avx2;
    case Isa::kAvx512:
      return avx512;
    case Isa::kAvx512Bf16:
      return avx512 && __builtin_cpu_supports("avx512bf16") && __builtin_cpu_supports("avx512vnni") &&
             __builtin_cpu_supports("avx512vbmi");
  }
#endif
  return isa == Isa::kPortable;
}

const Kernels& kernels_at(Isa isa) {
  for (const Level& level : kLevels) {
    if (level.isa != isa) continue;
    if (!isa_supported(isa))
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("this CPU lacks the instructions of the {} kernels; leave SEEKLINE_ISA unset or name a "
                      "lower level",
                      level.name));
    return proven(level);
  }
  throw Error(ErrorCode::kUnsupported, fmt::format("this build has no {} kernels", isa_name(isa)));
}

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace seekline
