// Index scores with VNNI: four int8 products and their sum in one instruction.
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

void index_scores(const IndexScores& args) {
  args.format.kind == RowKind::kIndexFp4 ? index_lanes::fp4_scores<Quads>(args) : avx512::index_scores(args);
}

}  // namespace seekline::avx512bf16
