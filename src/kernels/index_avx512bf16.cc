// Index scores: fp4 keys with VNNI, four int8 products and their sum in one instruction; fp8 keys in bf16.
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/index_avx512.h"

namespace seekline::avx512bf16 {
namespace {

struct Quads {
  SEEKLINE_MEMBER static __m512i add_dots(__m512i sum, __m512i key, __m512i query) {
    return _mm512_dpbusd_epi32(sum, key, query);
  }
};

}  // namespace

std::int64_t index_query_bytes(const RowFormat& format, int heads) {
  return takes_fp8_index(format) ? fp8_index_query_bytes(format, heads)
                                 : avx512::index_query_bytes(format, heads);
}

void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out) {
  takes_fp8_index(format) ? prepare_fp8_index_query(format, q, heads, out)
                          : avx512::prepare_index_query(format, q, heads, out);
}

void index_scores(const IndexScores& args) {
  if (takes_fp8_index(args.format)) return fp8_index_scores(args);
  args.format.kind == RowKind::kIndexFp4 ? index_lanes::fp4_scores<Quads>(args) : avx512::index_scores(args);
}

}  // namespace seekline::avx512bf16
