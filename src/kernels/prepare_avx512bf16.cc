#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/decode_avx512bf16.h"
#include "kernels/dots_avx512bf16.h"

namespace seekline::avx512bf16 {
namespace {

/// f32 -> bf16 for a product: values below 2^-64 count as 0, those from 2^64 up as infinite (scale_shift says
/// why).
SEEKLINE_SIMD __m512 within_range(__m512 x) {
  const __m512 a = _mm512_abs_ps(x);
  x = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(0x1p-64f), _CMP_NLT_UQ), x);
  const __mmask16 huge = _mm512_cmp_ps_mask(a, _mm512_set1_ps(0x1p64f), _CMP_GE_OQ);
  return _mm512_mask_mul_ps(x, huge, x, _mm512_set1_ps(__builtin_huge_valf()));
}

/// 32 values from x + i as bf16 words in natural order; those at and past k are 0.
SEEKLINE_SIMD __m512i words32(const float* x, std::int64_t i, std::int64_t k) {
  const __m512 low = _mm512_maskz_loadu_ps(simd::first16(k > i ? k - i : 0), x + i);
  const __m512 high = _mm512_maskz_loadu_ps(simd::first16(k > i + 16 ? k - i - 16 : 0), x + i + 16);
  return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(within_range(high), within_range(low)));
}

/// Word w of vector v of an e4m3 step: weight 16 (w / 8) + 8 v + w % 8 of 64.
SEEKLINE_SIMD void permute_e4m3(const __m512i* n, __m512i* out) {
  alignas(64) std::uint16_t index[32];
  for (unsigned w = 0; w < 32; ++w) index[w] = static_cast<std::uint16_t>(16 * (w / 8) + w % 8);
  const __m512i first = _mm512_load_si512(index);
  out[0] = _mm512_permutex2var_epi16(n[0], first, n[1]);
  out[1] = _mm512_permutex2var_epi16(n[0], _mm512_add_epi16(first, _mm512_set1_epi16(8)), n[1]);
}

/// Word w of vector v of an e2m1 step: weight 4 w + v of 128.
SEEKLINE_SIMD void permute_e2m1(const __m512i* n, __m512i* out) {
  alignas(64) std::uint16_t index[32];
  for (unsigned w = 0; w < 32; ++w) index[w] = static_cast<std::uint16_t>(4 * (w % 16));
  __m512i at = _mm512_load_si512(index);
  for (int v = 0; v < 4; ++v) {
    const __m512i low = _mm512_permutex2var_epi16(n[0], at, n[1]);
    const __m512i high = _mm512_permutex2var_epi16(n[2], at, n[3]);
    out[v] = _mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1);
    at = _mm512_add_epi16(at, _mm512_set1_epi16(1));
  }
}

void prepare_bf16(WeightKind kind, BlockQuantizer quantizer, const float* x, std::int64_t k,
                  std::uint8_t* out) {
  const Dots form = dots();
  const std::int64_t last = row_vectors(kind, k);
  for (std::int64_t i = 0; i < last * 32; i += 128) {
    // 128 is a whole number of blocks of every quantizer.
    float values[128];
    const float* from = x + i;
    const std::int64_t count = k - i < 128 ? k - i : 128;
    if (quantizer != BlockQuantizer::kNone) {
      avx512::quantize(quantizer, x + i, count, values);
      from = values;
    }
    __m512i n[4], v[4];
    for (int j = 0; j < 4; ++j) n[j] = words32(from, 32 * j, count);
    if (kind == WeightKind::kE4M3) {
      permute_e4m3(n, v);
      permute_e4m3(n + 2, v + 2);
    } else if (kind == WeightKind::kE2M1) {
      permute_e2m1(n, v);
    } else {
      for (int j = 0; j < 4; ++j) v[j] = n[j];
    }
    for (std::int64_t j = 0; j < 4 && i / 32 + j < last; ++j)
      store_x(form, v[j], out + (i / 32 + j) * x_vector_bytes(form));
  }
}

bool in_bf16(WeightKind kind, Arithmetic arithmetic) {
  return arithmetic == Arithmetic::kFast && kind != WeightKind::kF32 && kind != WeightKind::kF16;
}

}  // namespace

std::int64_t prepared_bytes(WeightKind kind, Arithmetic arithmetic, std::int64_t k) {
  return in_bf16(kind, arithmetic) ? row_vectors(kind, k) * x_vector_bytes(dots())
                                   : avx512::prepared_bytes(kind, arithmetic, k);
}

void prepare(WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer, const float* x, std::int64_t k,
             std::uint8_t* out) {
  if (in_bf16(kind, arithmetic)) return prepare_bf16(kind, quantizer, x, k, out);
  avx512::prepare(kind, arithmetic, quantizer, x, k, out);
}

void matmul(const Matmul& m) {
  if (!in_bf16(m.w.kind, m.arithmetic)) return avx512::matmul(m);
  const NoSubnormals flushing;
  m.tokens <= kMostStreamed ? matmul_few(m) : matmul_many(m);
}

}  // namespace seekline::avx512bf16
