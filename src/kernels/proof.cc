// The start-up proof of a level: every function on small, awkward shapes beside the scalar truth. A wrong
// instruction set, a miscompiled file or a faulty machine shows here, before the first token.
#include <cmath>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "core/arena.h"
#include "formats/rows.h"
#include "kernels/levels.h"

namespace seekline {
namespace {

using Problem = std::optional<std::string>;
using Floats = std::vector<float>;
using Bytes = std::vector<std::uint8_t>;

std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

/// Repeatable values: a multiplicative generator is enough to tell every lane from every other.
class Values {
 public:
  std::uint32_t bits() { return state_ = state_ * 1664525u + 1013904223u; }
  /// In (-1, 1), with 7 significant bits, so that bf16 holds them exactly.
  float operator()() { return static_cast<float>(static_cast<int>(bits() >> 24) - 128) / 128.0f; }
  Floats floats(std::int64_t n) {
    Floats v(size(n));
    for (float& x : v) x = (*this)();
    return v;
  }

 private:
  std::uint32_t state_ = 20261130;
};

struct WeightCase {
  const char* name;
  WeightKind kind;
  ScaleKind scale_kind;
  int block_rows, block_cols;
};

constexpr WeightCase kWeightCases[] = {{"f32", WeightKind::kF32, ScaleKind::kNone, 0, 0},
                                       {"f16", WeightKind::kF16, ScaleKind::kNone, 0, 0},
                                       {"bf16", WeightKind::kBF16, ScaleKind::kNone, 0, 0},
                                       {"e4m3 in 32-blocks", WeightKind::kE4M3, ScaleKind::kUE8M0, 32, 32},
                                       {"e4m3 in 128-blocks", WeightKind::kE4M3, ScaleKind::kUE8M0, 128, 128},
                                       {"e4m3 with f32 scales", WeightKind::kE4M3, ScaleKind::kF32, 128, 128},
                                       {"e2m1", WeightKind::kE2M1, ScaleKind::kUE8M0, 1, 32}};

void fill_weights(WeightView& w, Values& values, Bytes& data, Bytes& scales) {
  data.resize(size(w.rows * w.row_bytes()));
  scales.resize(size(w.scale_bytes()));
  for (std::size_t i = 0; i < data.size(); ++i) {
    auto byte = static_cast<std::uint8_t>(values.bits() >> 24);
    // The top bytes of plain elements stay in the middle of their range; e4m3 has no NaN here.
    if (w.kind == WeightKind::kF32 && i % 4 == 3) byte = static_cast<std::uint8_t>(0x3E | (byte & 0x80));
    if (w.kind == WeightKind::kBF16 && i % 2 == 1) byte = static_cast<std::uint8_t>(0x3E | (byte & 0x80));
    if (w.kind == WeightKind::kF16 && i % 2 == 1) byte = static_cast<std::uint8_t>((byte & 0x83) | 0x34);
    if (w.kind == WeightKind::kE4M3 && (byte & 0x7F) == 0x7F) byte = 0x01;
    data[i] = byte;
  }
  for (std::size_t i = 0; i < scales.size(); ++i)
    scales[i] =
        static_cast<std::uint8_t>(w.scale_kind == ScaleKind::kF32 ? (i % 4 == 3 ? 0x3D : values.bits() >> 25)
                                                                  : 120 + (values.bits() >> 29));
  w.data = data.data();
  w.scales = scales.data();
}

/// y of `tokens` tokens over rows [begin, rows), by the level.
Floats products(const Kernels& level, const WeightView& w, Arithmetic arithmetic, const Floats& x, int tokens,
                std::int64_t begin) {
  const std::int64_t row = whole_lines(level.prepared_bytes(w.kind, arithmetic, w.cols));
  Bytes prepared(size(row * tokens) + 64), scratch(size(level.matmul_scratch_bytes(w.cols)) + 64);
  const auto aligned = [](Bytes& b) {
    return b.data() + (64 - reinterpret_cast<std::uintptr_t>(b.data()) % 64) % 64;
  };
  Floats y(size(w.rows * tokens), 0.5f);
  std::vector<const std::uint8_t*> xs;
  std::vector<float*> ys;
  for (int t = 0; t < tokens; ++t) {
    std::uint8_t* out = aligned(prepared) + t * row;
    level.prepare(w.kind, arithmetic, BlockQuantizer::kNone, x.data() + t * w.cols, w.cols, out);
    xs.push_back(out);
    ys.push_back(y.data() + t * w.rows);
  }
  Matmul m;
  m.w = w;
  m.arithmetic = arithmetic;
  m.row_begin = begin;
  m.row_end = w.rows;
  m.x = xs.data();
  m.y = ys.data();
  m.tokens = tokens;
  m.accumulate = true;
  m.scratch = aligned(scratch);
  level.matmul(m);
  return y;
}

Problem prove_matmul(const Kernels& level, const WeightCase& c, Arithmetic arithmetic) {
  constexpr int kTokens = 9;
  Values values;
  WeightView w{c.kind, c.scale_kind, 37, 224, nullptr, nullptr, c.block_rows, c.block_cols};
  Bytes data, scales;
  fill_weights(w, values, data, scales);
  const Floats x = values.floats(w.cols * kTokens);
  const Floats many = products(level, w, arithmetic, x, kTokens, 0);
  const Floats one = products(level, w, arithmetic, x, 1, 3);
  for (int t = 0; t < kTokens; ++t) {
    for (std::int64_t o = 0; o < w.rows; ++o) {
      double sum = 0.5, magnitude = 0.5;
      for (std::int64_t k = 0; k < w.cols; ++k) {
        const double term = static_cast<double>(x[size(t * w.cols + k)]) * weight_value(w, o, k);
        sum += term;
        magnitude += std::fabs(term);
      }
      if (!(std::fabs(many[size(t * w.rows + o)] - sum) <= 1e-6 * magnitude))
        return fmt::format("a product with {} weights is {} and should be {}", c.name,
                           many[size(t * w.rows + o)], sum);
    }
  }
  for (std::int64_t o = 3; o < w.rows; ++o)
    if (one[size(o)] != many[size(o)])
      return fmt::format("a product with {} weights depends on the number of tokens", c.name);
  return std::nullopt;
}

/// Some rows of a weight, transposed, beside f64; one token alone must give what it gives among others.
Problem prove_transposed(const Kernels& level, const WeightCase& c, Arithmetic arithmetic) {
  constexpr int kTokens = 8;
  constexpr std::int64_t kFirst = 3, kEnd = 36;
  Values values;
  WeightView w{c.kind, c.scale_kind, 37, 224, nullptr, nullptr, c.block_rows, c.block_cols};
  Bytes data, scales;
  fill_weights(w, values, data, scales);
  const std::int64_t rows = kEnd - kFirst;
  const Floats x = values.floats(rows * kTokens);
  const auto aligned = [](Bytes& b) {
    return b.data() + (64 - reinterpret_cast<std::uintptr_t>(b.data()) % 64) % 64;
  };
  const auto run = [&](int first, int tokens) {
    Floats y(size(kTokens * w.cols));
    Bytes scratch(size(level.transposed_scratch_bytes(rows, w.cols, tokens) + 64));
    std::vector<const float*> xs;
    std::vector<float*> ys;
    for (int t = first; t < first + tokens; ++t) {
      xs.push_back(x.data() + t * rows);
      ys.push_back(y.data() + t * w.cols);
    }
    TransposedMatmul m;
    m.w = w;
    m.arithmetic = arithmetic;
    m.row_begin = kFirst;
    m.row_end = kEnd;
    m.col_end = w.cols;
    m.x = xs.data();
    m.y = ys.data();
    m.tokens = tokens;
    m.scratch = aligned(scratch);
    level.matmul_transposed(m);
    return y;
  };
  const Floats many = run(0, kTokens), one = run(1, 1);
  for (int t = 0; t < kTokens; ++t) {
    for (std::int64_t k = 0; k < w.cols; ++k) {
      double sum = 0, magnitude = 1e-30;
      for (std::int64_t r = 0; r < rows; ++r) {
        const double term = static_cast<double>(x[size(t * rows + r)]) * weight_value(w, kFirst + r, k);
        sum += term;
        magnitude += std::fabs(term);
      }
      const float found = many[size(t * w.cols + k)];
      if (!(std::fabs(found - sum) <= 1e-6 * magnitude))
        return fmt::format("a product along {} rows is {} and should be {}", c.name, found, sum);
      if (t == 1 && one[size(t * w.cols + k)] != found)
        return fmt::format("a product along {} rows depends on the number of tokens", c.name);
    }
  }
  return std::nullopt;
}

constexpr RowFormat kRowFormats[] = {{RowKind::kF32, 48},         {RowKind::kBF16, 80},
                                     {RowKind::kMlaFp8, 336, 64}, {RowKind::kMlaFp8, 320, 64, true},
                                     {RowKind::kIndexFp8, 128},   {RowKind::kV4Fp8, 256, 64},
                                     {RowKind::kV41Fp8, 96},      {RowKind::kV41Fp4, 80},
                                     {RowKind::kIndexFp4, 160}};

Problem prove_row(const Kernels& level, const RowFormat& format) {
  Values values;
  Floats row = values.floats(format.width);
  for (std::size_t i = 0; i < row.size(); i += 5) row[i] *= 0.037f;
  row[1] = 1e-39f;
  Bytes data(size(format.data_bytes())), scale(size(format.scale_bytes()) + 1), truth_data = data,
                                                                                truth_scale = scale;
  encode_row(format, row.data(), truth_data.data(), truth_scale.data());
  level.encode_row(format, row.data(), data.data(), scale.data());
  if (data != truth_data || scale != truth_scale) return format.name() + " rows are encoded to other bytes";
  Floats out(row.size()), truth(row.size());
  decode_row(format, truth_data.data(), truth_scale.data(), truth.data());
  level.decode_row(format, truth_data.data(), truth_scale.data(), out.data());
  if (std::memcmp(out.data(), truth.data(), out.size() * 4) != 0)
    return format.name() + " rows are decoded otherwise";
  return std::nullopt;
}

/// The softmax average of two tiles, the second cut short, against f64.
Problem prove_attend(const Kernels& level, Arithmetic arithmetic) {
  constexpr int kWidth = 96, kValueFirst = 16, kValueWidth = 64, kQueries = 5, kLast = 39;
  const RowFormat format{RowKind::kBF16, kWidth};
  Values values;
  Bytes rows(size(2 * kTileRows * format.data_bytes()));
  Floats decoded = values.floats(2 * kTileRows * kWidth);
  for (int r = 0; r < 2 * kTileRows; ++r)
    encode_row(format, decoded.data() + r * kWidth, rows.data() + r * format.data_bytes(), rows.data());
  const Floats q = values.floats(kQueries * kWidth);
  const std::int64_t query_bytes = whole_lines(level.query_bytes(arithmetic, kWidth));
  const std::int64_t key_bytes = whole_lines(level.tile_bytes(arithmetic, kWidth));
  const std::int64_t value_bytes = whole_lines(level.tile_bytes(arithmetic, kValueWidth));
  Bytes memory(
      size(kQueries * query_bytes + key_bytes + value_bytes + level.attend_scratch_bytes(kQueries) + 64));
  std::uint8_t* queries = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  std::uint8_t* keys = queries + kQueries * query_bytes;
  std::uint8_t* value_tile = keys + key_bytes;
  Floats out(kQueries * kValueWidth);
  std::vector<AttendState> states;
  std::vector<const std::uint8_t*> query_rows;
  for (int i = 0; i < kQueries; ++i) {
    level.prepare_query(arithmetic, q.data() + i * kWidth, kWidth, queries + i * query_bytes);
    query_rows.push_back(queries + i * query_bytes);
    states.push_back({-INFINITY, 0, out.data() + i * kValueWidth});
  }
  for (int first : {0, kTileRows}) {
    const int count = first == 0 ? kTileRows : kLast;
    std::vector<RowRef> refs;
    for (int r = 0; r < count; ++r)
      refs.push_back({rows.data() + (first + r) * format.data_bytes(), rows.data()});
    const std::uint8_t* loaded = level.load_tile(
        {format, arithmetic, refs.data(), count, 0, kWidth, kValueFirst, kValueWidth, keys, value_tile});
    const std::vector<int> valid(kQueries, count);
    level.attend({arithmetic, keys, loaded, kWidth, kValueWidth, 0.25f, kQueries, query_rows.data(),
                  valid.data(), states.data(), value_tile + value_bytes});
  }
  const double tolerance = arithmetic == Arithmetic::kFast ? 1.0 / 256 : 2e-6;
  for (int i = 0; i < kQueries; ++i) {
    std::vector<double> expected(kValueWidth);
    double sum = 0;
    for (int r = 0; r < kTileRows + kLast; ++r) {
      double score = 0;
      for (int k = 0; k < kWidth; ++k)
        score += static_cast<double>(q[size(i * kWidth + k)]) * decoded[size(r * kWidth + k)];
      const double weight = std::exp(0.25 * score);
      sum += weight;
      for (int d = 0; d < kValueWidth; ++d)
        expected[size(d)] += weight * decoded[size(r * kWidth + kValueFirst + d)];
    }
    for (int d = 0; d < kValueWidth; ++d)
      if (!(std::fabs(states[size(i)].out[d] / states[size(i)].sum - expected[size(d)] / sum) <= tolerance))
        return "attention over two tiles is off";
  }
  return std::nullopt;
}

Problem prove_index(const Kernels& level, const RowFormat& format) {
  constexpr int kHeads = 20, kRows = 21;
  Values values;
  Bytes data(size(kRows * format.data_bytes())), scale(size(kRows * format.scale_bytes()) + 1);
  std::vector<Floats> keys(kRows, Floats(size(format.width)));
  for (int r = 0; r < kRows; ++r) {
    std::uint8_t* d = data.data() + r * format.data_bytes();
    std::uint8_t* s = scale.data() + r * format.scale_bytes();
    encode_row(format, values.floats(format.width).data(), d, s);
    decode_row(format, d, s, keys[size(r)].data());
  }
  const Floats q = values.floats(kHeads * format.width), weights = values.floats(kHeads);
  Bytes memory(size(level.index_query_bytes(format, kHeads)) + 64);
  std::uint8_t* query = memory.data() + (64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64) % 64;
  level.prepare_index_query(format, q.data(), kHeads, query);
  Floats scores(kRows);
  level.index_scores(
      {format, query, weights.data(), kHeads, data.data(), scale.data(), kRows, scores.data()});
  Floats rounded(q.size());
  for (int h = 0; h < kHeads; ++h)
    quantize_values(row_layout(format).quantizer, {q.data() + h * format.width, size(format.width)},
                    {rounded.data() + h * format.width, size(format.width)});
  for (int r = 0; r < kRows; ++r) {
    double expected = 0, magnitude = 0;
    for (int h = 0; h < kHeads; ++h) {
      double dot = 0;
      for (int k = 0; k < format.width; ++k)
        dot += static_cast<double>(rounded[size(h * format.width + k)]) * keys[size(r)][size(k)];
      expected += static_cast<double>(weights[size(h)]) * std::fmax(dot, 0.0);
      magnitude += std::fabs(static_cast<double>(weights[size(h)])) * format.width;
    }
    if (!(std::fabs(scores[size(r)] - expected) <= 1e-6 * magnitude))
      return "index scores over " + format.name() + " are off";
  }
  return std::nullopt;
}

bool near(float value, double expected, double relative) {
  return std::fabs(value - expected) <= relative * std::fabs(expected) + 1e-30;
}

Problem prove_vectors(const Kernels& level) {
  constexpr std::int64_t kN = 53;
  Values values;
  const Floats a = values.floats(kN), b = values.floats(kN), c = values.floats(kN);
  double dot = 0, dot3 = 0, squares = 0;
  for (std::size_t i = 0; i < size(kN); ++i) {
    dot += static_cast<double>(a[i]) * b[i];
    dot3 += static_cast<double>(a[i]) * b[i] * c[i];
    squares += static_cast<double>(a[i]) * a[i];
  }
  if (std::fabs(level.dot(a.data(), b.data(), kN) - dot) > 1e-5) return "dot is off";
  if (std::fabs(level.dot3(a.data(), b.data(), c.data(), kN) - dot3) > 1e-5) return "dot3 is off";
  if (std::fabs(level.sum_squares(a.data(), kN) - squares) > 1e-5) return "sum_squares is off";
  Floats norm(size(kN)), sum = c, e(size(kN)), s(size(kN)), glu(size(kN));
  level.rms_norm(a.data(), b.data(), kN, 1e-6f, norm.data());
  level.axpy(0.5f, a.data(), kN, sum.data());
  Floats wide = a;
  for (float& x : wide) x *= 40;
  level.exp(wide.data(), kN, e.data());
  level.sigmoid(wide.data(), kN, s.data());
  level.swiglu(wide.data(), b.data(), kN, 0.75f, 2.0f, glu.data());
  const double rstd = 1 / std::sqrt(squares / kN + 1e-6);
  for (std::size_t i = 0; i < size(kN); ++i) {
    const double g = std::fmin(wide[i], 0.75), u = std::fmax(-0.75, std::fmin(b[i], 0.75));
    if (!near(norm[i], a[i] * rstd * b[i], 1e-5)) return "rms_norm is off";
    if (std::fabs(sum[i] - (c[i] + 0.5 * a[i])) > 1e-6) return "axpy is off";
    if (!near(e[i], std::exp(static_cast<double>(wide[i])), 1e-6)) return "exp is off";
    if (!near(s[i], 1 / (1 + std::exp(-static_cast<double>(wide[i]))), 1e-6)) return "sigmoid is off";
    if (!near(glu[i], 2 * u * g / (1 + std::exp(-g)), 1e-6)) return "swiglu is off";
  }
  return std::nullopt;
}

Problem prove_streams(const Kernels& level) {
  constexpr int kStreams = 4, kN = 37;
  Values values;
  const Floats h = values.floats(kStreams * kN), y = values.floats(kN), post = values.floats(kStreams),
               comb = values.floats(kStreams * kStreams);
  Floats collapsed(kN), mixed = h;
  level.stream_collapse(h.data(), post.data(), kStreams, kN, collapsed.data());
  level.stream_mix(mixed.data(), y.data(), post.data(), comb.data(), kStreams, kN);
  for (int d = 0; d < kN; ++d) {
    double collapse = 0;
    for (int k = 0; k < kStreams; ++k) {
      collapse += static_cast<double>(post[size(k)]) * h[size(k * kN + d)];
      double mix = static_cast<double>(post[size(k)]) * y[size(d)];
      for (int j = 0; j < kStreams; ++j)
        mix += static_cast<double>(comb[size(j * kStreams + k)]) * h[size(j * kN + d)];
      if (std::fabs(mixed[size(k * kN + d)] - mix) > 1e-5) return "stream_mix is off";
    }
    if (std::fabs(collapsed[size(d)] - collapse) > 1e-5) return "stream_collapse is off";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> kernel_problem(const Kernels& level) {
  for (const Arithmetic arithmetic : {Arithmetic::kF32, Arithmetic::kFast}) {
    for (const WeightCase& c : kWeightCases) {
      if (Problem p = prove_matmul(level, c, arithmetic)) return p;
      if (Problem p = prove_transposed(level, c, arithmetic)) return p;
    }
    if (Problem p = prove_attend(level, arithmetic)) return p;
  }
  for (const RowFormat& format : kRowFormats)
    if (Problem p = prove_row(level, format)) return p;
  for (const RowFormat& format :
       {RowFormat{RowKind::kIndexFp4, 128}, RowFormat{RowKind::kIndexFp4, 32},
        RowFormat{RowKind::kIndexFp8, 128}, RowFormat{RowKind::kBF16, 64}, RowFormat{RowKind::kF32, 64}})
    if (Problem p = prove_index(level, format)) return p;
  if (Problem p = prove_vectors(level)) return p;
  return prove_streams(level);
}

}  // namespace seekline
