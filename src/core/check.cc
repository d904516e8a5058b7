#include "core/check.h"

#include <cstdio>
#include <cstdlib>

namespace seekline {

void check_failed(const char* file, int line, const char* condition, const char* why) {
  std::fprintf(stderr, "seekline: broken invariant at %s:%d: %s (%s)\n", file, line, condition, why);
  std::abort();
}

}  // namespace seekline
