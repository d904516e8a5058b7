#include "formats/rows.h"
#include "kernels/avx2.h"
#include "kernels/avx512.h"
#include "kernels/avx512bf16.h"
#include "kernels/levels.h"
#include "kernels/portable.h"

// The tables of the vector levels. Compiled without vector flags: it only names functions.
namespace seekline {

constinit const Kernels kAvx2Kernels{
    .isa = Isa::kAvx2,
    .prepared_bytes = avx2::prepared_bytes,
    .prepare = avx2::prepare,
    .matmul_scratch_bytes = avx2::matmul_scratch_bytes,
    .matmul = avx2::matmul,
    .encode_row = encode_row,
    .decode_row = decode_row,
    .query_bytes = portable::query_bytes,
    .prepare_query = portable::prepare_query,
    .tile_bytes = portable::tile_bytes,
    .load_keys = portable::load_rows,
    .load_values = portable::load_rows,
    .attend_scratch_bytes = portable::attend_scratch_bytes,
    .attend = portable::attend,
    .index_query_bytes = portable::index_query_bytes,
    .prepare_index_query = portable::prepare_index_query,
    .index_scores = portable::index_scores,
    .dot = avx2::dot,
    .dot3 = avx2::dot3,
    .dot_exact = avx2::dot_exact,
    .sum_squares = avx2::sum_squares,
    .rms_norm = avx2::rms_norm,
    .axpy = avx2::axpy,
    .swiglu = avx2::swiglu,
    .exp = avx2::exp,
    .sigmoid = avx2::sigmoid,
    .stream_collapse = avx2::stream_collapse,
    .stream_mix = avx2::stream_mix,
};

constinit const Kernels kAvx512Kernels{
    .isa = Isa::kAvx512,
    .prepared_bytes = avx512::prepared_bytes,
    .prepare = avx512::prepare,
    .matmul_scratch_bytes = avx512::matmul_scratch_bytes,
    .matmul = avx512::matmul,
    .encode_row = avx512::encode_row,
    .decode_row = avx512::decode_row,
    .query_bytes = avx512::query_bytes,
    .prepare_query = avx512::prepare_query,
    .tile_bytes = avx512::tile_bytes,
    .load_keys = avx512::load_keys,
    .load_values = avx512::load_values,
    .attend_scratch_bytes = avx512::attend_scratch_bytes,
    .attend = avx512::attend,
    .index_query_bytes = avx512::index_query_bytes,
    .prepare_index_query = avx512::prepare_index_query,
    .index_scores = avx512::index_scores,
    .dot = avx512::dot,
    .dot3 = avx512::dot3,
    .dot_exact = avx512::dot_exact,
    .sum_squares = avx512::sum_squares,
    .rms_norm = avx512::rms_norm,
    .axpy = avx512::axpy,
    .swiglu = avx512::swiglu,
    .exp = avx512::exp,
    .sigmoid = avx512::sigmoid,
    .stream_collapse = avx512::stream_collapse,
    .stream_mix = avx512::stream_mix,
};

constinit const Kernels kAvx512Bf16Kernels{
    .isa = Isa::kAvx512Bf16,
    .prepared_bytes = avx512bf16::prepared_bytes,
    .prepare = avx512bf16::prepare,
    .matmul_scratch_bytes = avx512bf16::matmul_scratch_bytes,
    .matmul = avx512bf16::matmul,
    .encode_row = avx512::encode_row,
    .decode_row = avx512::decode_row,
    .query_bytes = avx512bf16::query_bytes,
    .prepare_query = avx512bf16::prepare_query,
    .tile_bytes = avx512bf16::tile_bytes,
    .load_keys = avx512bf16::load_keys,
    .load_values = avx512bf16::load_values,
    .attend_scratch_bytes = avx512::attend_scratch_bytes,
    .attend = avx512bf16::attend,
    .index_query_bytes = avx512::index_query_bytes,
    .prepare_index_query = avx512::prepare_index_query,
    .index_scores = avx512bf16::index_scores,
    .dot = avx512::dot,
    .dot3 = avx512::dot3,
    .dot_exact = avx512::dot_exact,
    .sum_squares = avx512::sum_squares,
    .rms_norm = avx512::rms_norm,
    .axpy = avx512::axpy,
    .swiglu = avx512::swiglu,
    .exp = avx512::exp,
    .sigmoid = avx512::sigmoid,
    .stream_collapse = avx512::stream_collapse,
    .stream_mix = avx512::stream_mix,
};

}  // namespace seekline
