// How far apart rows lie that are read side by side.
#pragma once

#include <cstdint>

namespace seekline {

/// `bytes` rounded up to an odd multiple of 512: rows that start at one place of their 4 KB pages would push
/// each other out of the first cache, and so any eight in a row start at eight places.
constexpr std::int64_t row_pitch(std::int64_t bytes) { return ((bytes + 511) / 512 | 1) * 512; }

}  // namespace seekline
