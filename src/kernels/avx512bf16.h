// The AVX512-BF16 level: bf16 dot products with f32 sums, int8 dot products for the index; the rest is
// AVX-512's.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace seekline::avx512bf16 {

std::int64_t prepared_bytes(WeightKind kind, Arithmetic arithmetic, std::int64_t k);
void prepare(WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer, const float* x, std::int64_t k,
             std::uint8_t* out);
std::int64_t matmul_scratch_bytes(std::int64_t k);
void matmul(const Matmul& m);
std::int64_t transposed_scratch_bytes(std::int64_t rows, std::int64_t cols, std::int64_t tokens);
void matmul_transposed(const TransposedMatmul& m);

std::int64_t query_bytes(Arithmetic arithmetic, int width);
void prepare_query(Arithmetic arithmetic, const float* q, int width, std::uint8_t* out);
std::int64_t tile_bytes(Arithmetic arithmetic, int width);
const std::uint8_t* load_tile(const TileRows& rows);
void attend(const AttendTile& tile);

std::int64_t index_query_bytes(const RowFormat& format, int heads);
void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out);
void index_scores(const IndexScores& args);
// Called by those where keys are index_fp8 in whole blocks.
bool takes_fp8_index(const RowFormat& format);
std::int64_t fp8_index_query_bytes(const RowFormat& format, int heads);
void prepare_fp8_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out);
void fp8_index_scores(const IndexScores& args);

// The machine's limits; kernels/probe.h.
std::uint64_t probe_read(const std::uint8_t* data, std::int64_t bytes);
double probe_bf16_dots(std::int64_t rounds);
double probe_int8_dots(std::int64_t rounds);

// Called by matmul for the weights that bf16 products take; see decode_avx512bf16.h for orders.
void matmul_few(const Matmul& m);   ///< weights streamed and decoded in registers, up to kMostStreamed tokens
void matmul_many(const Matmul& m);  ///< a tile of weight rows decoded once for all tokens

inline constexpr std::int64_t kFewTokens = 4;  ///< multiplied at once
inline constexpr std::int64_t kMostStreamed = 16;

}  // namespace seekline::avx512bf16
