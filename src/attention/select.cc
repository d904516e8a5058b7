#include "attention/select.h"

#include <array>
#include <bit>
#include <numeric>

namespace seekline {
namespace {

// Order of floats as order of unsigned integers; both zeros give the same key, NaN the lowest.
inline std::uint32_t key_of(float score) {
  if (!(score == score)) return 0;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(score + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

struct Digit {
  int shift, bits;
};
constexpr std::array<Digit, 3> kDigits{{{21, 11}, {10, 11}, {0, 10}}};

// The k-th largest key; `*above` counts the keys that are larger.
std::uint32_t kth_largest(const float* scores, std::int64_t n, std::int64_t k, std::int64_t* above) {
  std::uint32_t prefix = 0;
  std::uint32_t mask = 0;
  std::int64_t left = k;  // how many of the keys that share the prefix are still wanted
  for (const Digit digit : kDigits) {
    std::array<std::int32_t, 2048> count{};
    const std::uint32_t digit_mask = (1u << digit.bits) - 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t key = key_of(scores[i]);
      if ((key & mask) == prefix) ++count[(key >> digit.shift) & digit_mask];
    }
    std::uint32_t d = digit_mask;
    while (count[d] < left) left -= count[d--];
    prefix |= d << digit.shift;
    mask |= digit_mask << digit.shift;
  }
  *above = k - left;
  return prefix;
}

}  // namespace

std::int64_t select_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out) {
  if (n <= k) {
    std::iota(out, out + n, 0);
    return n;
  }
  if (k <= 0) return 0;
  std::int64_t above = 0;
  const std::uint32_t threshold = kth_largest(scores, n, k, &above);
  std::int64_t ties = k - above;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n && count < k; ++i) {
    const std::uint32_t key = key_of(scores[i]);
    if (key > threshold || (key == threshold && ties-- > 0)) out[count++] = static_cast<std::int32_t>(i);
  }
  return count;
}

}  // namespace seekline
