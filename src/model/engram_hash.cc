#include "model/engram_hash.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <unordered_set>

#include "core/check.h"
#include "seekline/error.h"

namespace seekline {
namespace {

__extension__ using Uint128 = unsigned __int128;

/// NumPy's SeedSequence(seed) with its default pool of four words.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed) {
    const std::array<std::uint32_t, 4> entropy{static_cast<std::uint32_t>(seed),
                                               static_cast<std::uint32_t>(seed >> 32), 0, 0};
    std::uint32_t constant = 0x43B0D7E5;
    const auto hash = [&constant](std::uint32_t value) {
      value ^= constant;
      constant *= 0x931E8875;
      value *= constant;
      return value ^ value >> 16;
    };
    for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(entropy[i]);
    for (std::size_t source = 0; source < pool_.size(); ++source) {
      for (std::size_t target = 0; target < pool_.size(); ++target) {
        if (source == target) continue;
        const std::uint32_t mixed = 0xCA01F9DD * pool_[target] - 0x4973F715 * hash(pool_[source]);
        pool_[target] = mixed ^ mixed >> 16;
      }
    }
  }

  /// generate_state(4, uint64)
  std::array<std::uint64_t, 4> state() const {
    std::array<std::uint64_t, 4> words{};
    std::uint32_t constant = 0x8B51F9DD;
    for (std::size_t i = 0; i < 8; ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58F38DED;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= static_cast<std::uint64_t>(value) << (i % 2 * 32);
    }
    return words;
  }

 private:
  std::array<std::uint32_t, 4> pool_{};
};

/// PCG64 (128-bit LCG, XSL-RR output), started as PCG's srandom does; 32-bit words are halves of one output.
class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const auto words = SeedSequence(seed).state();
    increment_ = (static_cast<Uint128>(words[2]) << 64 | words[3]) << 1 | 1;
    step();
    state_ += static_cast<Uint128>(words[0]) << 64 | words[1];
    step();
  }

  std::uint64_t next64() {
    step();
    const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    const auto rotation = static_cast<unsigned>(state_ >> 122);
    return folded >> rotation | folded << (-rotation & 63U);
  }

  std::uint32_t next32() {
    if (half_kept_) {
      half_kept_ = false;
      return kept_half_;
    }
    const std::uint64_t both = next64();
    half_kept_ = true;
    kept_half_ = static_cast<std::uint32_t>(both >> 32);
    return static_cast<std::uint32_t>(both);
  }

 private:
  void step() {
    constexpr Uint128 kMultiplier = static_cast<Uint128>(0x2360ED051FC65DA4U) << 64 | 0x4385DF649FCCF645U;
    state_ = state_ * kMultiplier + increment_;
  }

  Uint128 state_ = 0, increment_ = 0;
  bool half_kept_ = false;
  std::uint32_t kept_half_ = 0;
};

/// Lemire's draw below `bound` (not 0) from words of `bits` bits.
template <typename Draw>
std::uint64_t lemire(std::uint64_t bound, int bits, Draw draw) {
  const Uint128 span = static_cast<Uint128>(1) << bits;
  const auto threshold = static_cast<std::uint64_t>((span - bound) % bound);
  Uint128 product = 0;
  do product = static_cast<Uint128>(draw()) * bound;
  while (static_cast<std::uint64_t>(product & (span - 1)) < threshold);
  return static_cast<std::uint64_t>(product >> bits);
}

std::uint64_t power_mod(std::uint64_t base, std::uint64_t exponent, std::uint64_t modulus) {
  Uint128 result = 1, square = base % modulus;
  for (; exponent > 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * square % modulus;
    square = square * square % modulus;
  }
  return static_cast<std::uint64_t>(result);
}

/// Miller-Rabin with the bases that decide every 64-bit number.
bool is_prime(std::uint64_t n) {
  constexpr std::array<std::uint64_t, 12> kBases{2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37};
  if (n < 2) return false;
  for (const std::uint64_t p : kBases) {
    if (n % p == 0) return n == p;
  }
  int twos = 0;
  std::uint64_t odd = n - 1;
  for (; odd % 2 == 0; odd /= 2) ++twos;
  return std::all_of(kBases.begin(), kBases.end(), [&](std::uint64_t base) {
    std::uint64_t x = power_mod(base, odd, n);
    if (x == 1) return true;
    for (int i = 0; i < twos; ++i) {
      if (x == n - 1) return true;
      x = power_mod(x, 2, n);
    }
    return false;
  });
}

/// Two multipliers' products stay below 2^63: class < compressed_vocab_size, multiplier < 2 * bound.
std::int64_t multiplier_bound(std::int64_t compressed_vocab_size) {
  return std::max<std::int64_t>(1, INT64_MAX / compressed_vocab_size / 2);
}

}  // namespace

std::vector<std::int64_t> numpy_integers(std::uint64_t seed, std::int64_t bound, int count) {
  SEEKLINE_CHECK(bound >= 1, "a draw needs a positive bound");
  Pcg64 generator(seed);
  const auto below = static_cast<std::uint64_t>(bound);
  constexpr std::uint64_t kWords32 = std::uint64_t{1} << 32;
  const auto draw = [&]() -> std::uint64_t {
    if (below == 1) return 0;
    if (below == kWords32) return generator.next32();
    if (below < kWords32) return lemire(below, 32, [&] { return generator.next32(); });
    return lemire(below, 64, [&] { return generator.next64(); });
  };
  std::vector<std::int64_t> draws;
  for (int i = 0; i < count; ++i) draws.push_back(static_cast<std::int64_t>(draw()));
  return draws;
}

EngramLayout engram_layout(std::span<const std::int64_t> layer_ids, int max_ngram, int heads,
                           std::int64_t engram_vocab_size, std::int64_t compressed_vocab_size) {
  constexpr std::int64_t kMaxVocab = std::int64_t{1} << 40;  // sums of primes stay far below 2^63
  const auto require = [](bool right, const char* key, std::int64_t found, const char* expected) {
    if (!right) {
      throw Error(ErrorCode::kBadFile, fmt::format("config: {} is {}, expected {}", key, found, expected));
    }
  };
  require(max_ngram >= 2 && max_ngram <= 64, "engram_max_ngram_size", max_ngram, "2 to 64");
  require(heads >= 1 && heads <= 1024, "engram_n_heads", heads, "1 to 1024");
  require(engram_vocab_size >= 1 && engram_vocab_size <= kMaxVocab, "engram_vocab_size", engram_vocab_size,
          "1 to 2^40");
  require(compressed_vocab_size >= 1 && compressed_vocab_size <= INT32_MAX, "engram_compressed_vocab_size",
          compressed_vocab_size, "1 to 2^31 - 1");

  EngramLayout layout{max_ngram, heads, {}};
  std::unordered_set<std::int64_t> taken;
  for (const std::int64_t layer_id : layer_ids) {
    require(layer_id >= 0, "an entry of engram_layer_ids", layer_id, "0 or more");
    EngramLayout::Layer layer;
    layer.layer_id = layer_id;
    const std::uint64_t seed = 10007U * static_cast<std::uint64_t>(layer_id);
    layer.multipliers = numpy_integers(seed, multiplier_bound(compressed_vocab_size), max_ngram);
    for (std::int64_t& multiplier : layer.multipliers) multiplier = 2 * multiplier + 1;
    for (int ngram = 2; ngram <= max_ngram; ++ngram) {
      std::int64_t candidate = engram_vocab_size - 1;
      for (int head = 0; head < heads; ++head) {
        do ++candidate;
        while (taken.contains(candidate) || !is_prime(static_cast<std::uint64_t>(candidate)));
        taken.insert(candidate);
        layer.primes.push_back(candidate);
        layer.offsets.push_back(layer.rows);
        layer.rows += candidate;
      }
    }
    layout.layers.push_back(std::move(layer));
  }
  return layout;
}

void engram_rows(const EngramLayout& layout, const EngramLayout::Layer& layer, const std::int32_t* classes,
                 std::int64_t* rows) {
  std::int64_t hash = classes[0] * layer.multipliers[0];
  std::size_t column = 0;
  for (int back = 1; back < layout.max_ngram; ++back) {
    hash ^= classes[back] * layer.multipliers[static_cast<std::size_t>(back)];
    for (int head = 0; head < layout.heads; ++head, ++column) {
      rows[column] = hash % layer.primes[column] + layer.offsets[column];
    }
  }
}

}  // namespace seekline
