// Block quantizers of activations and cache rows: value in, decoded value out. The truth for everything
// faster.
#pragma once

#include <cstdint>
#include <span>

namespace seekline {

enum class BlockQuantizer : std::uint8_t {
  kNone,
  kFp8Block32,      ///< e4m3, one ue8m0 per 32 (V4.1 activations and windows)
  kFp8Block64,      ///< e4m3, one ue8m0 per 64 (V4 rows)
  kFp8Block128,     ///< e4m3, one ue8m0 per 128 (V4 activations; V3.2 with scale_fmt ue8m0 gives the same
                    ///< values)
  kFp8Block128F32,  ///< e4m3, one f32 scale per 128 (V3 activations, V3.2 rows and index keys)
  kFp4Block32,      ///< e2m1, one ue8m0 per 32 (index keys and queries)
  kFp4Block16,      ///< e2m1, one e4m3 per 16 (V4.1 main rows)
};

/// Values that share a scale; 1 for kNone.
int quantizer_block(BlockQuantizer quantizer);

/// One block: codes (one a byte) and its scale as f32; `code` may hold up to 128 bytes.
/// `in` holds quantizer_block() values or fewer (a partial last block), all finite.
struct QuantizedBlock {
  std::uint8_t codes[128];
  float scale;              ///< decoded
  std::uint8_t scale_code;  ///< ue8m0 or e4m3 byte; 0 where the scale is f32
};
QuantizedBlock quantize_block(BlockQuantizer quantizer, std::span<const float> in);

/// out[i] = decoded value of in[i], block by block from the start; `in` and `out` may be the same.
void quantize_values(BlockQuantizer quantizer, std::span<const float> in, std::span<float> out);

}  // namespace seekline
