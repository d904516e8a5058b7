#include "attention/select.h"

#include <algorithm>
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

// The k-th largest of n keys; `*above` counts the keys that are larger.
template <typename KeyAt>
std::uint32_t kth_largest(std::int64_t n, std::int64_t k, KeyAt key_at, std::int64_t* above) {
  std::uint32_t prefix = 0;
  std::uint32_t mask = 0;
  std::int64_t left = k;  // how many of the keys that share the prefix are still wanted
  for (const Digit digit : kDigits) {
    std::array<std::int32_t, 2048> count{};
    const std::uint32_t digit_mask = (1u << digit.bits) - 1;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::uint32_t key = key_at(i);
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

// Writes index_at(i) for the k largest of n > k keys, in order.
template <typename KeyAt, typename IndexAt>
std::int64_t take_largest(std::int64_t n, std::int64_t k, KeyAt key_at, IndexAt index_at, std::int32_t* out) {
  if (k <= 0) return 0;
  std::int64_t above = 0;
  const std::uint32_t threshold = kth_largest(n, k, key_at, &above);
  std::int64_t ties = k - above;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n && count < k; ++i) {
    const std::uint32_t key = key_at(i);
    if (key > threshold || (key == threshold && ties-- > 0)) out[count++] = index_at(i);
  }
  return count;
}

// How many scores have each value of the first digit. Neighbouring scores are counted apart: they are often
// alike, and a count that was just written takes a while to be read again.
struct Counts {
  static constexpr int kWays = 4;
  std::int32_t of[kWays][2048];

  std::int64_t all(std::uint32_t digit) const {
    std::int64_t sum = 0;
    for (const auto& way : of) sum += way[digit];
    return sum;
  }
};

std::uint32_t first_digit(float score) { return key_of(score) >> kDigits[0].shift; }

void count_digits(const float* scores, WorkRange range, Counts& counts) {
  for (auto& way : counts.of) std::fill(std::begin(way), std::end(way), 0);
  std::int64_t i = range.begin;
  for (; i + Counts::kWays <= range.end; i += Counts::kWays)
    for (int w = 0; w < Counts::kWays; ++w) ++counts.of[w][first_digit(scores[i + w])];
  for (; i < range.end; ++i) ++counts.of[0][first_digit(scores[i])];
}

// The lowest first digit among the k largest scores.
std::uint32_t lowest_digit(const Counts* parts, int count, std::int64_t k) {
  std::uint32_t digit = 2047;
  for (std::int64_t left = k;; --digit) {
    for (int p = 0; p < count; ++p) left -= parts[p].all(digit);
    if (left <= 0) return digit;
  }
}

// The indices of a range whose score has at least this first digit -> how many.
std::int64_t collect(const float* scores, WorkRange range, std::uint32_t digit, std::int32_t* out) {
  std::int64_t count = 0;
  for (std::int64_t i = range.begin; i < range.end; ++i) {
    out[count] = static_cast<std::int32_t>(i);
    count += first_digit(scores[i]) >= digit ? 1 : 0;
  }
  return count;
}

std::int64_t select_among(const float* scores, const std::int32_t* candidates, std::int64_t n, std::int64_t k,
                          std::int32_t* out) {
  if (n <= k) return std::copy_n(candidates, n, out) - out;
  return take_largest(
      n, k, [&](std::int64_t i) { return key_of(scores[candidates[i]]); },
      [&](std::int64_t i) { return candidates[i]; }, out);
}

std::int64_t all_of(std::int64_t n, std::int32_t* out) {
  std::iota(out, out + n, 0);
  return n;
}

}  // namespace

std::int64_t select_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out) {
  if (n <= k) return all_of(n, out);
  return take_largest(
      n, k, [&](std::int64_t i) { return key_of(scores[i]); },
      [](std::int64_t i) { return static_cast<std::int32_t>(i); }, out);
}

std::int64_t select_top_k(const float* scores, std::int64_t n, std::int64_t k, std::int32_t* out,
                          std::int32_t* scratch) {
  if (n <= k) return all_of(n, out);
  if (k <= 0) return 0;
  Counts counts;
  count_digits(scores, {0, n}, counts);
  const std::int64_t found = collect(scores, {0, n}, lowest_digit(&counts, 1, k), scratch);
  return select_among(scores, scratch, found, k, out);
}

std::int64_t select_top_k(ThreadPool& pool, Arena& arena, const float* scores, std::int64_t n, std::int64_t k,
                          std::int32_t* out, std::int32_t* scratch) {
  if (n <= k) return all_of(n, out);
  if (k <= 0) return 0;
  Arena::Scope scope(arena);
  const int workers = pool.size();
  Counts* counts = arena.array<Counts>(workers);
  std::int64_t* found = arena.array<std::int64_t>(workers);
  const auto part = [&](int worker) { return static_split(n, 1, worker, workers); };
  pool.run([&](int worker) { count_digits(scores, part(worker), counts[worker]); });
  const std::uint32_t digit = lowest_digit(counts, workers, k);
  pool.run([&](int worker) {
    found[worker] = collect(scores, part(worker), digit, scratch + part(worker).begin);
  });
  std::int64_t together = found[0];
  for (int worker = 1; worker < workers; ++worker) {
    std::copy_n(scratch + part(worker).begin, found[worker], scratch + together);
    together += found[worker];
  }
  return select_among(scores, scratch, together, k, out);
}

}  // namespace seekline
