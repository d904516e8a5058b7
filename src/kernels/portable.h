// The portable level: plain C++, written to be read. `fast` equals `f32` here.
#pragma once

#include <cstdint>

#include "kernels/table.h"

namespace seekline::portable {

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
std::int64_t attend_scratch_bytes(int queries);
void attend(const AttendTile& tile);

std::int64_t index_query_bytes(const RowFormat& format, int heads);
void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out);
void index_scores(const IndexScores& args);

float dot(const float* a, const float* b, std::int64_t n);
float dot3(const float* a, const float* b, const float* c, std::int64_t n);
double dot_exact(const float* a, const float* b, std::int64_t n);
float sum_squares(const float* x, std::int64_t n);
void rms_norm(const float* x, const float* weight, std::int64_t n, float eps, float* out);
void axpy(float a, const float* x, std::int64_t n, float* y);
void swiglu(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out);
void exp(const float* x, std::int64_t n, float* out);
void sigmoid(const float* x, std::int64_t n, float* out);
void stream_collapse(const float* h, const float* pre, int streams, std::int64_t n, float* out);
void stream_mix(float* h, const float* y, const float* post, const float* comb, int streams, std::int64_t n);

}  // namespace seekline::portable
