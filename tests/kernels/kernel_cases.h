// What the kernel tests share: the levels of this machine, repeatable values, aligned memory, random weights.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "formats/rows.h"
#include "kernels/levels.h"

namespace seekline::kernel_cases {

inline std::vector<const Kernels*> levels() {
  std::vector<const Kernels*> found;
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16})
    if (isa_supported(isa)) found.push_back(&kernels_at(isa));
  return found;
}

inline std::string name_of(const Kernels& level) { return std::string(isa_name(level.isa)); }
inline std::size_t size(std::int64_t n) { return static_cast<std::size_t>(n); }

inline std::vector<float> normal_values(std::int64_t n, unsigned seed, float sigma = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, sigma);
  std::vector<float> values(size(n));
  for (float& v : values) v = normal(random);
  return values;
}

/// A weight matrix with its own bytes: random codes without NaN, block scales around 2^-3. f32 scales are,
/// row by row, powers of two, such powers times one number, and anything (decode_avx512bf16.h).
struct Weights {
  WeightView view;
  std::vector<std::uint8_t> data, scales;

  Weights(WeightKind kind, ScaleKind scale_kind, std::int64_t rows, std::int64_t cols, int block_rows,
          int block_cols, unsigned seed) {
    view = {kind, scale_kind, rows, cols, nullptr, nullptr, block_rows, block_cols};
    std::mt19937 random(seed);
    data.resize(size(rows * view.row_bytes()));
    scales.resize(size(view.scale_bytes()));
    if (kind == WeightKind::kF32 || kind == WeightKind::kBF16) {
      const std::vector<float> values = normal_values(rows * cols, seed, 0.5f);
      const std::size_t keep = kind == WeightKind::kF32 ? 4 : 2;
      for (std::size_t i = 0; i < values.size(); ++i)
        std::memcpy(&data[i * keep], reinterpret_cast<const std::uint8_t*>(&values[i]) + 4 - keep, keep);
    } else {
      for (std::size_t i = 0; i < data.size(); ++i) {
        auto byte = static_cast<std::uint8_t>(random() >> 24);
        if (kind == WeightKind::kE4M3 && (byte & 0x7F) == 0x7F) byte ^= 1;
        if (kind == WeightKind::kF16 && i % 2 == 1) byte = static_cast<std::uint8_t>((byte & 0x83) | 0x34);
        data[i] = byte;
      }
    }
    for (std::size_t i = 0; i < scales.size(); i += scale_kind == ScaleKind::kF32 ? 4 : 1) {
      if (scale_kind == ScaleKind::kF32) {
        float scale = 0.05f + static_cast<float>(random() >> 8) * 0x1p-26f;
        const std::size_t row = i / 4 / size(view.scale_cols());
        if (row % 3 != 2) scale = std::exp2(std::floor(std::log2(scale))) * (row % 3 == 1 ? 1.3229f : 1.0f);
        std::memcpy(&scales[i], &scale, 4);
      } else {
        scales[i] = static_cast<std::uint8_t>(120 + random() % 8);
      }
    }
    view.data = data.data();
    view.scales = scales.data();
  }
};

/// Rows prepared for one kind, and the products of all tokens with rows [begin, end) of w; y starts as
/// `start`.
class Products {
 public:
  Products(const Kernels& level, const WeightView& w, Arithmetic arithmetic, BlockQuantizer quantizer,
           const std::vector<float>& x, std::int64_t tokens)
      : level_(level),
        w_(w),
        arithmetic_(arithmetic),
        tokens_(tokens),
        row_((level.prepared_bytes(w.kind, arithmetic, w.cols) + 63) / 64 * 64),
        prepared_(size(row_ * tokens)),
        scratch_(size(level.matmul_scratch_bytes(w.cols))) {
    for (std::int64_t t = 0; t < tokens; ++t)
      level.prepare(w.kind, arithmetic, quantizer, x.data() + t * w.cols, w.cols,
                    prepared_.data() + t * row_);
  }

  void run(std::int64_t begin, std::int64_t end, std::int64_t first_token, std::int64_t tokens,
           bool accumulate, std::vector<float>& y) {
    std::vector<const std::uint8_t*> xs;
    std::vector<float*> ys;
    for (std::int64_t t = first_token; t < first_token + tokens; ++t) {
      xs.push_back(prepared_.data() + t * row_);
      ys.push_back(y.data() + t * w_.rows);
    }
    Matmul m;
    m.w = w_;
    m.arithmetic = arithmetic_;
    m.row_begin = begin;
    m.row_end = end;
    m.x = xs.data();
    m.y = ys.data();
    m.tokens = tokens;
    m.accumulate = accumulate;
    m.scratch = scratch_.data();
    level_.matmul(m);
  }

  std::vector<float> all() {
    std::vector<float> y(size(tokens_ * w_.rows));
    run(0, w_.rows, 0, tokens_, false, y);
    return y;
  }

 private:
  const Kernels& level_;
  WeightView w_;
  Arithmetic arithmetic_;
  std::int64_t tokens_, row_;
  Buffer<std::uint8_t> prepared_, scratch_;
};

}  // namespace seekline::kernel_cases
