#include "formats/rows.h"
#include "kernels/levels.h"
#include "kernels/portable.h"

namespace seekline {

constinit const Kernels kPortableKernels{
    .isa = Isa::kPortable,
    .prepared_bytes = portable::prepared_bytes,
    .prepare = portable::prepare,
    .matmul_scratch_bytes = portable::matmul_scratch_bytes,
    .matmul = portable::matmul,
    .transposed_scratch_bytes = portable::transposed_scratch_bytes,
    .matmul_transposed = portable::matmul_transposed,
    .encode_row = encode_row,
    .decode_row = decode_row,
    .query_bytes = portable::query_bytes,
    .prepare_query = portable::prepare_query,
    .tile_bytes = portable::tile_bytes,
    .load_tile = portable::load_tile,
    .attend_scratch_bytes = portable::attend_scratch_bytes,
    .attend = portable::attend,
    .index_query_bytes = portable::index_query_bytes,
    .prepare_index_query = portable::prepare_index_query,
    .index_scores = portable::index_scores,
    .dot = portable::dot,
    .dot3 = portable::dot3,
    .dot_exact = portable::dot_exact,
    .sum_squares = portable::sum_squares,
    .rms_norm = portable::rms_norm,
    .axpy = portable::axpy,
    .swiglu = portable::swiglu,
    .exp = portable::exp,
    .sigmoid = portable::sigmoid,
    .stream_collapse = portable::stream_collapse,
    .stream_mix = portable::stream_mix,
};

}  // namespace seekline
