#include "kernels/dots_avx512bf16.h"

namespace seekline {
namespace {

/// sum + w * x, x a prepared vector.
template <Dots kForm>
SEEKLINE_SIMD __m512 add_dot(__m512 sum, __m512i w, const std::uint8_t* x) {
  if constexpr (kForm == Dots::kInstruction) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w),
                            reinterpret_cast<__m512bh>(_mm512_loadu_si512(x)));
  } else {
    sum = _mm512_fmadd_ps(avx512bf16::odd_words(w), _mm512_loadu_ps(x), sum);
    return _mm512_fmadd_ps(avx512bf16::even_words(w), _mm512_loadu_ps(x + 64), sum);
  }
}

constexpr int kSums = 20, kWeights = 2;  // with what is read beside them, no more than registers

/// Sums of `rounds` vectors each, all different.
template <Dots kForm>
void sums_of(int rounds, const __m512i* w, const std::uint8_t* x, __m512* sums) {
  constexpr std::int64_t kX = avx512bf16::x_vector_bytes(kForm);
  const avx512bf16::NoSubnormals flushing;
  __m512 sum[kSums];
#pragma GCC unroll 20
  for (int i = 0; i < kSums; ++i) sum[i] = sums[i];
  const __m512i wi[kWeights] = {w[0], w[1]};
  for (int r = 0; r < rounds; ++r) {
#pragma GCC unroll 20
    for (int i = 0; i < kSums; ++i) sum[i] = add_dot<kForm>(sum[i], wi[i % kWeights], x + r % 2 * kX);
  }
#pragma GCC unroll 20
  for (int i = 0; i < kSums; ++i) sums[i] = sum[i];
}

/// Values of either sign whose products and sums are rounded nearly every time.
struct Operands {
  __m512i w[kWeights], x[2];
  __m512 sums[kSums];

  explicit Operands(std::uint32_t seed) {
    alignas(64) std::uint32_t words[16];
    const auto fill = [&](std::uint32_t mask, std::uint32_t base) {
      for (std::uint32_t& word : words) {
        seed = seed * 1664525u + 1013904223u;
        word = ((seed ^ seed >> 13) & mask) | base;
      }
      return _mm512_load_si512(words);
    };
    for (__m512i& v : w) v = fill(0x83FF83FFu, 0x3C003C00u);  // 2^-7 .. 2
    for (__m512i& v : x) v = fill(0x83FF83FFu, 0x3C003C00u);
    for (__m512& v : sums) v = _mm512_castsi512_ps(fill(0x83FFFFFFu, 0x3C000000u));
  }
};

template <Dots kForm>
void prepare(const Operands& o, std::uint8_t* x) {
  for (int i = 0; i < 2; ++i) avx512bf16::store_x(kForm, o.x[i], x + i * avx512bf16::x_vector_bytes(kForm));
}

/// Ticks of the processor's clock that some rounds take.
template <Dots kForm>
std::uint64_t ticks() {
  Operands operands(1);
  alignas(64) std::uint8_t x[256];
  prepare<kForm>(operands, x);
  const std::uint64_t start = __builtin_ia32_rdtsc();
  sums_of<kForm>(400, operands.w, x, operands.sums);
  __asm__ volatile("" : : "m"(operands));  // the sums count as used
  return __builtin_ia32_rdtsc() - start;
}

Dots chosen() {
  // In turn, for long enough that the CPU has woken up its wide units: some tenths of a millisecond.
  std::uint64_t instruction = ~std::uint64_t{0}, fused = instruction;
  for (int reading = 0; reading < 40; ++reading) {
    const std::uint64_t i = ticks<Dots::kInstruction>(), f = ticks<Dots::kFusedPairs>();
    instruction = i < instruction ? i : instruction;
    fused = f < fused ? f : fused;
  }
  // Clearly faster: a little is lost again where weights are split into odd and even words.
  return fused * 5 < instruction * 4 && dots_agree() ? Dots::kFusedPairs : Dots::kInstruction;
}

int in_force = -1;

}  // namespace

bool dots_agree() {
  for (std::uint32_t seed = 1; seed <= 64; ++seed) {
    Operands instruction(seed), fused(seed);
    alignas(64) std::uint8_t x[256], pairs[256];
    prepare<Dots::kInstruction>(instruction, x);
    prepare<Dots::kFusedPairs>(fused, pairs);
    sums_of<Dots::kInstruction>(8, instruction.w, x, instruction.sums);
    sums_of<Dots::kFusedPairs>(8, fused.w, pairs, fused.sums);
    for (int i = 0; i < kSums; ++i)
      if (_mm512_cmpneq_epi32_mask(_mm512_castps_si512(instruction.sums[i]),
                                   _mm512_castps_si512(fused.sums[i])) != 0)
        return false;
  }
  return true;
}

Dots dots() {
  int form = __atomic_load_n(&in_force, __ATOMIC_RELAXED);
  if (form < 0) {
    form = static_cast<int>(chosen());
    __atomic_store_n(&in_force, form, __ATOMIC_RELAXED);
  }
  return static_cast<Dots>(form);
}

void use_dots(Dots form) { __atomic_store_n(&in_force, static_cast<int>(form), __ATOMIC_RELAXED); }

}  // namespace seekline
