#include "kernels/avx512bf16.h"
#include "kernels/row_runs.h"
#include "kernels/simd.h"

namespace seekline::avx512bf16 {
namespace {

constexpr int kVectors = 24;  // enough to hide the latency of a dot product on every CPU that has them

/// Keeps the compiler from seeing that a sum is never used.
SEEKLINE_SIMD void keep(__m512i v) { __asm__ volatile("" : : "v"(v)); }

}  // namespace

// Four streams, as products read weights (row_runs.h): a little faster than one wherever it was tried.
std::uint64_t probe_read(const std::uint8_t* data, std::int64_t bytes) {
  constexpr int kStreams = 4;
  const std::int64_t each = bytes / kStreams / 64 * 64;
  __m512i sum[kStreams] = {};
  for (std::int64_t i = 0; i < each; i += 64) {
#pragma GCC unroll 4
    for (int s = 0; s < kStreams; ++s) {
      sum[s] = _mm512_xor_si512(sum[s], _mm512_loadu_si512(data + s * each + i));
      simd::fetch_line(data + s * each + i + simd::kRunAhead);
    }
  }
  for (std::int64_t i = kStreams * each; i + 64 <= bytes; i += 64)
    sum[0] = _mm512_xor_si512(sum[0], _mm512_loadu_si512(data + i));
  const __m512i all = _mm512_xor_si512(_mm512_xor_si512(sum[0], sum[1]), _mm512_xor_si512(sum[2], sum[3]));
  return static_cast<std::uint64_t>(_mm512_reduce_or_epi64(all));
}

double probe_bf16_dots(std::int64_t rounds) {
  __m512 sum[kVectors];  // all different, or the compiler would compute one for all
  for (int v = 0; v < kVectors; ++v) sum[v] = _mm512_set1_ps(static_cast<float>(v));
  const auto a = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3F80));
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int v = 0; v < kVectors; ++v) sum[v] = _mm512_dpbf16_ps(sum[v], a, a);
  }
  for (const __m512& s : sum) keep(_mm512_castps_si512(s));
  return static_cast<double>(rounds) * kVectors * 64;
}

double probe_int8_dots(std::int64_t rounds) {
  __m512i sum[kVectors];
#pragma GCC unroll 24
  for (int v = 0; v < kVectors; ++v) sum[v] = _mm512_set1_epi32(v);
  const __m512i a = _mm512_set1_epi8(1);
  for (std::int64_t r = 0; r < rounds; ++r) {
#pragma GCC unroll 24
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = _mm512_dpbusd_epi32(sum[v], a, a);
      simd::in_register(sum[v]);  // or g++ copies the sums to and fro, which halves the speed on Zen 4
    }
  }
#pragma GCC unroll 24
  for (int v = 0; v < kVectors; ++v) keep(sum[v]);
  return static_cast<double>(rounds) * kVectors * 128;
}

}  // namespace seekline::avx512bf16
