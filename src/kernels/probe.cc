#include "kernels/probe.h"

#include <cstring>

#include "kernels/avx512bf16.h"

namespace seekline {

std::uint64_t probe_read(const std::uint8_t* data, std::int64_t bytes) {
  if (isa_supported(Isa::kAvx512Bf16)) return avx512bf16::probe_read(data, bytes);
  std::uint64_t sums[8] = {};
  for (std::int64_t i = 0; i + 64 <= bytes; i += 64) {
    for (int lane = 0; lane < 8; ++lane) {
      std::uint64_t word;
      std::memcpy(&word, data + i + lane * 8, 8);
      sums[lane] ^= word;
    }
  }
  std::uint64_t all = 0;
  for (std::uint64_t sum : sums) all ^= sum;
  return all;
}

double probe_bf16_dots(std::int64_t rounds) {
  return isa_supported(Isa::kAvx512Bf16) ? avx512bf16::probe_bf16_dots(rounds) : 0;
}

double probe_int8_dots(std::int64_t rounds) {
  return isa_supported(Isa::kAvx512Bf16) ? avx512bf16::probe_int8_dots(rounds) : 0;
}

}  // namespace seekline
