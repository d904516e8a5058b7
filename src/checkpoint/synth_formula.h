// Weights by formula: anyone can produce the same bytes from a tensor's name, its geometry and a 64-bit seed.
//
// All integers are unsigned 64-bit with wraparound.
//   fnv1a(s)  = h <- 0xcbf29ce484222325; for each byte b of s: h <- (h xor b) * 0x100000001b3
//   mix(z)    = z <- (z xor z>>30) * 0xbf58476d1ce4e5b9; z <- (z xor z>>27) * 0x94d049bb133111eb; z xor z>>31
//   word(k,i) = mix(k + (i+1) * 0x9e3779b97f4a7c15)
//   key(name) = mix(fnv1a(name) xor seed)
// Elements are numbered row-major from 0 over the stored tensor.
//   F8_E4M3   byte u = (word(k, i>>3) >> 8*(i&7)) & 255 -> code (u & 0x80) | (0x20 + (u & 0x1f))
//   I8        byte u as above (two e2m1)
//   F8_E8M0   127 + e0 + (word(k,i) mod 3) - 1; e0 = round(log2(1 / (sqrt(K) * s))), half up, s = 0.75 over
//   e4m3
//             and 2.93 over e2m1, K inputs of the linear; 0 for a table
//   BF16, F32 bias + amp * v in f64, v = ((word(k,i) >> 48) - 32768) / 32768, rounded once to f32, then to
//   bf16 I64       word(k,i) mod experts; where that id is already in the row: the next higher (cyclic) that
//   is not
// bias and amp by role: linear 0, sqrt(3/K); embedding 0, 1.7320508; norm 1, 0.25; bias 0, 0.1; position 0,
// 0.5; sink 0, 1; inverse scale 2^e0, 0.25 * 2^e0.
#pragma once

#include <cstdint>

#include "checkpoint/tensor_spec.h"

namespace seekline {

/// Produces the bytes of one tensor, piece by piece in any order. Cheap to make; const and thread-safe.
class SynthTensor {
 public:
  /// Pieces must begin at a multiple of this many elements (for I64: of whole rows).
  static constexpr std::int64_t kGrain = 8;

  /// `spec` must outlive the object. With `power_scales` the amp of inverse scales is 0.
  SynthTensor(const TensorSpec& spec, std::uint64_t seed, bool power_scales = false);

  /// Writes the stored bytes of elements [first, first + count).
  void fill(std::int64_t first, std::int64_t count, std::uint8_t* out) const;

 private:
  void fill_codes(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  void fill_exponents(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  template <typename Stored>
  void fill_numbers(std::int64_t first, std::int64_t count, std::uint8_t* out) const;
  void fill_expert_ids(std::int64_t first, std::int64_t count, std::uint8_t* out) const;

  const TensorSpec& spec_;
  std::uint64_t key_;
  int exponent_ = 0;  // e0
  double bias_ = 0, amp_ = 0;
};

}  // namespace seekline
