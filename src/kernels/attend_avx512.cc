// Attention in f32: nothing is rounded.
#include "kernels/attend_avx512.h"

#include "kernels/avx512.h"

namespace seekline::avx512 {
namespace {

struct F32 {
  using Mode = simd::AnyMode;
  static constexpr int kPerDword = 1, kHalves = 1;
  SEEKLINE_MEMBER static __m512i half(__m512i dwords, int) { return dwords; }
  SEEKLINE_MEMBER static __m512 multiply_add(__m512 sum, __m512i a, __m512i b) {
    return _mm512_fmadd_ps(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b), sum);
  }
  SEEKLINE_MEMBER static __m512i pack(const float* p) { return _mm512_castps_si512(_mm512_load_ps(p)); }
  SEEKLINE_MEMBER static __m512i join(const std::uint8_t* row, const std::uint8_t*, int channel) {
    return _mm512_loadu_si512(row + channel * 4);
  }
  SEEKLINE_MEMBER static void pack_weights(const float* p, std::int32_t* out) {
    for (int i = 0; i < kTileRows; i += 16) _mm512_store_si512(out + i, pack(p + i));
  }
};

}  // namespace

std::int64_t query_bytes(Arithmetic, int width) { return std::int64_t{width} * 4; }

void prepare_query(Arithmetic, const float* q, int width, std::uint8_t* out) {
  __builtin_memcpy(out, q, static_cast<std::size_t>(width) * 4);
}

std::int64_t tile_bytes(Arithmetic, int width) { return attend_lanes::tile_bytes<F32>(width); }

const std::uint8_t* load_tile(const TileRows& rows) { return attend_lanes::load_tile<F32>(rows); }

std::int64_t attend_scratch_bytes(int) { return 0; }

void attend(const AttendTile& tile) { attend_lanes::attend<F32>(tile); }

}  // namespace seekline::avx512
