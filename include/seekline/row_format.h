// How one row of a cache store is laid out in bytes (spec: docs/cache-formats.md).
#pragma once

#include <cstdint>
#include <string>

namespace seekline {

enum class RowKind : std::uint8_t {
  kF32,       ///< width f32; for checks, ablation and compressor state
  kBF16,      ///< width bf16
  kMlaFp8,    ///< V3.2 main: e4m3 with one f32 scale per 128, then `tail` bf16 channels
  kIndexFp8,  ///< V3.2 index key: e4m3 with one f32 scale
  kV4Fp8,     ///< V4 main and window: e4m3 with one ue8m0 per 64, then `tail` bf16; scales padded to 8
  kV41Fp8,    ///< V4.1 window: e4m3 with one ue8m0 per 32, RoPE tail included
  kV41Fp4,    ///< V4.1 main: e2m1 with one e4m3 scale per 16, RoPE tail included
  kIndexFp4,  ///< V4, V4.1 index key: e2m1 with one ue8m0 per 32
};

/// A row of `width` values. A page of P rows is one data plane (P x data_bytes) followed by one scale plane
/// (P x scale_bytes). Widths that a kind cannot hold are refused by `check_row_format` (formats/rows.h).
struct RowFormat {
  RowKind kind = RowKind::kF32;
  int width = 0;  ///< values in a row, tail included
  int tail = 0;   ///< last channels kept as bf16 (kMlaFp8, kV4Fp8); 0 elsewhere
  bool pow2_scales =
      false;  ///< kMlaFp8, kIndexFp8: f32 scales rounded up to powers of two (`scale_fmt: ue8m0`)

  std::int64_t data_bytes() const;
  std::int64_t scale_bytes() const;
  std::int64_t bytes() const { return data_bytes() + scale_bytes(); }
  /// Such as "v41_fp4(512)"; the papers' and spec's names.
  std::string name() const;
  bool operator==(const RowFormat&) const = default;
};

}  // namespace seekline
