// The hot loops, one table of functions per vector level, chosen once at start.
//
// Contract of every level: the value of each output is a function of its own inputs and shapes only: never of
// the number of rows, tokens or threads in the call. The order of each sum is stated here and explained in
// docs/exactness.md. Levels may differ from each other in last bits; a level never differs from itself.
// Nothing here allocates, locks, or throws. `scratch` is per worker.
#pragma once

#include <cstdint>
#include <string_view>

#include "formats/quantizers.h"
#include "formats/weight_view.h"
#include "seekline/row_format.h"
#include "seekline/settings.h"

namespace seekline {

enum class Isa : std::uint8_t { kPortable, kAvx2, kAvx512, kAvx512Bf16 };
std::string_view isa_name(Isa isa);  ///< "portable", "avx2", "avx512", "avx512bf16"

/// One cache row where it lies.
struct RowRef {
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scale = nullptr;
};

/// y[t][o] (+)= sum_k x[t][k] * w[o, k] for o in [row_begin, row_end) and every token t.
/// x[t] points at a row made by `prepare` for the same kind and arithmetic; y[t] at f32 indexed by o itself.
/// With `accumulate` the finished sum is added to y once.
struct Matmul {
  WeightView w;
  Arithmetic arithmetic = Arithmetic::kF32;
  std::int64_t row_begin = 0, row_end = 0;
  const std::uint8_t* const* x = nullptr;
  float* const* y = nullptr;
  std::int64_t tokens = 0;
  bool accumulate = false;
  std::uint8_t* scratch = nullptr;         ///< matmul_scratch_bytes(cols)
  const std::uint8_t* prefetch = nullptr;  ///< next weights to be streamed, may be null
  std::int64_t prefetch_bytes = 0;
};

/// y[t][c] = sum over rows r of [row_begin, row_end) of x[t][r - row_begin] * w[r, c], for every column c of
/// [col_begin, col_end): a product with the transpose of some rows of a weight, where they lie. Rows are
/// added in ascending order; in fast arithmetic in pairs, those that share a block of f32 scales first. x as
/// it comes; col_begin is a multiple of 128, and so is col_end unless it is the last column's.
struct TransposedMatmul {
  WeightView w;
  Arithmetic arithmetic = Arithmetic::kF32;
  std::int64_t row_begin = 0, row_end = 0;
  std::int64_t col_begin = 0, col_end = 0;
  const float* const* x = nullptr;  ///< [tokens], row_end - row_begin values each
  float* const* y = nullptr;        ///< [tokens], indexed by the column itself
  std::int64_t tokens = 0;
  std::uint8_t* scratch = nullptr;  ///< transposed_scratch_bytes(rows, w.cols, tokens), 64-byte aligned
  const std::uint8_t* prefetch =
      nullptr;  ///< where the next call's columns begin in its first row; may be null
};

/// Rows per attention tile; also the fixed grid at which attention's running softmax is split.
inline constexpr int kTileRows = 64;

/// Running softmax of one query (one head of one token) over the tiles of its row list.
struct AttendState {
  float max;   ///< of the scores so far; starts at -inf
  float sum;   ///< of exp(score - max); starts at 0
  float* out;  ///< [value_width], sum of exp(score - max) * value; starts at 0
};

/// Rows to decode into one tile: some of their channels serve as keys, some as values.
struct TileRows {
  RowFormat format;
  Arithmetic arithmetic = Arithmetic::kF32;
  const RowRef* rows = nullptr;
  int count = 0;                     ///< <= kTileRows; the tile's further rows are zero
  int key_first = 0, key_width = 0;  ///< channels [first, first + width); width 0: no keys are made
  int value_first = 0, value_width = 0;
  std::uint8_t* keys = nullptr;    ///< tile_bytes(key_width)
  std::uint8_t* values = nullptr;  ///< tile_bytes(value_width)
};

/// One tile of decoded rows and the queries that look at it.
/// For each query i: s_j = scale * (q_i . key_j) for j < valid[i]; the softmax state moves on by the whole
/// tile (rows at and beyond valid[i] count as weight 0). Queries with valid[i] <= 0 are left untouched.
/// Order: a score is one running sum along the channels (lanes are rows) or the level's `dot`; max over the
/// tile; out *= exp(old - new) once, then values are added in row order; weights are summed in one lane
/// order.
struct AttendTile {
  Arithmetic arithmetic = Arithmetic::kF32;
  const std::uint8_t* keys = nullptr;  ///< both made by load_tile
  const std::uint8_t* values = nullptr;
  int key_width = 0, value_width = 0;
  float scale = 1;
  int queries = 0;
  const std::uint8_t* const* q = nullptr;  ///< rows made by prepare_query
  const int* valid = nullptr;              ///< [queries], rows of this tile that query may see, <= kTileRows
  AttendState* states = nullptr;           ///< [queries]
  std::uint8_t* scratch = nullptr;         ///< attend_scratch_bytes(queries)
};

/// score[j] = sum_h weight[h] * relu(q_h . key_j), heads in ascending order, for `rows` consecutive rows of a
/// page (data plane and scale plane strides are those of `format`). Block dots over e2m1 are exact integers;
/// the blocks of a row are added in ascending order in f32.
struct IndexScores {
  RowFormat format;
  const std::uint8_t* q = nullptr;  ///< made by prepare_index_query
  const float* weights = nullptr;   ///< [heads]
  int heads = 0;
  const std::uint8_t* data = nullptr;
  const std::uint8_t* scale = nullptr;
  std::int64_t rows = 0;
  float* scores = nullptr;  ///< [rows]
};

struct Kernels {
  Isa isa;

  // ---- products with weights (linear_*.cc) ----
  std::int64_t (*prepared_bytes)(WeightKind kind, Arithmetic arithmetic, std::int64_t k);
  /// x[k] f32 -> one prepared row: sent through `quantizer`, then f32, or bf16 (fast) in the order that this
  /// level decodes `kind` in.
  void (*prepare)(WeightKind kind, Arithmetic arithmetic, BlockQuantizer quantizer, const float* x,
                  std::int64_t k, std::uint8_t* out);
  std::int64_t (*matmul_scratch_bytes)(std::int64_t k);
  void (*matmul)(const Matmul& m);

  std::int64_t (*transposed_scratch_bytes)(std::int64_t rows, std::int64_t cols, std::int64_t tokens);
  void (*matmul_transposed)(const TransposedMatmul& m);

  // ---- cache rows (rows_*.cc); values equal formats/rows.h bit for bit ----
  void (*encode_row)(const RowFormat& format, const float* values, std::uint8_t* data, std::uint8_t* scale);
  void (*decode_row)(const RowFormat& format, const std::uint8_t* data, const std::uint8_t* scale,
                     float* out);

  // ---- attention (attend_*.cc) ----
  std::int64_t (*query_bytes)(Arithmetic arithmetic, int width);
  void (*prepare_query)(Arithmetic arithmetic, const float* q, int width, std::uint8_t* out);
  std::int64_t (*tile_bytes)(Arithmetic arithmetic, int width);  ///< of the key or the value form of a tile
  /// Decodes rows into a tile, channels that serve as both once where that is possible. Returns where the
  /// values lie: in `values`, or in `keys` where both are the same.
  const std::uint8_t* (*load_tile)(const TileRows& rows);
  std::int64_t (*attend_scratch_bytes)(int queries);
  void (*attend)(const AttendTile& tile);

  // ---- index (index_*.cc) ----
  std::int64_t (*index_query_bytes)(const RowFormat& format, int heads);
  /// q[heads, width] f32 -> the form `index_scores` takes; for quantized formats each head goes through the
  /// format's quantizer (queries and keys share it).
  void (*prepare_index_query)(const RowFormat& format, const float* q, int heads, std::uint8_t* out);
  void (*index_scores)(const IndexScores& args);

  // ---- element-wise (vector_*.cc); sums in 16 lanes, lane i takes elements i mod 16, then one fixed tree
  // ----
  float (*dot)(const float* a, const float* b, std::int64_t n);
  /// sum_i a_i * b_i * c_i
  float (*dot3)(const float* a, const float* b, const float* c, std::int64_t n);
  /// Products are exact in f64 and summed there, in the same 16 lanes and tree on every level: the same bits
  /// on every level, and within one rounding of the true sum.
  double (*dot_exact)(const float* a, const float* b, std::int64_t n);
  float (*sum_squares)(const float* x, std::int64_t n);
  /// out = x * rstd * weight, rstd = 1 / sqrt(mean(x^2) + eps); weight may be null (all ones). In place
  /// allowed.
  void (*rms_norm)(const float* x, const float* weight, std::int64_t n, float eps, float* out);
  /// y += a * x
  void (*axpy)(float a, const float* x, std::int64_t n, float* y);
  /// out = weight * silu(min(gate, limit)) * clamp(up, -limit, limit); limit <= 0: no clamp. In place
  /// allowed.
  void (*swiglu)(const float* gate, const float* up, std::int64_t n, float limit, float weight, float* out);
  void (*exp)(const float* x, std::int64_t n, float* out);
  void (*sigmoid)(const float* x, std::int64_t n, float* out);
  /// Collapse: out[d] = sum_k pre[k] * h[k * n + d], k ascending.
  void (*stream_collapse)(const float* h, const float* pre, int streams, std::int64_t n, float* out);
  /// Mix, in place: h'[k] = post[k] * y + sum_j comb[j * streams + k] * h[j], j ascending, y first.
  void (*stream_mix)(float* h, const float* y, const float* post, const float* comb, int streams,
                     std::int64_t n);
};

/// The table in force: the best level of this CPU, or the one SEEKLINE_ISA names. Decided at the first call,
/// where the level also proves itself against the scalar truth on small vectors. Throws Error(kUsage) for an
/// unknown name, Error(kUnsupported) for a level this CPU lacks, Error(kInternal) where a level fails its
/// proof.
const Kernels& kernels();

/// A given level, proven; for tests and benches. Throws Error(kUnsupported) where the CPU lacks it.
const Kernels& kernels_at(Isa isa);
bool isa_supported(Isa isa);

}  // namespace seekline
