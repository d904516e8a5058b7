#include <algorithm>

#include "core/check.h"
#include "formats/elements.h"
#include "formats/rows.h"
#include "kernels/portable.h"

// A prepared query is heads x width f32 of decoded values: in fp4 formats e2m1 x 2, small integers, followed
// by heads x blocks f32 scales, each a quarter of the block's own scale (both factors were doubled).
namespace seekline::portable {
namespace {

constexpr int kWidestIndexKey = 1024;
constexpr int kBlock = 32;

/// q . key of one fp4 head: blocks are exact integers, added in ascending order.
float fp4_dot(const float* q, const float* q_scale, const float* key, const float* key_scale, int blocks) {
  float sum = 0;
  for (int b = 0; b < blocks; ++b) {
    float block = 0;
    for (int i = b * kBlock; i < (b + 1) * kBlock; ++i) block += q[i] * key[i];
    sum += block * (q_scale[b] * key_scale[b]);
  }
  return sum;
}

void fp4_scores(const IndexScores& args) {
  const int width = args.format.width, blocks = width / kBlock;
  const float* q = reinterpret_cast<const float*>(args.q);
  const float* q_scales = q + args.heads * width;
  float key[kWidestIndexKey], key_scale[kWidestIndexKey / kBlock];
  for (std::int64_t r = 0; r < args.rows; ++r) {
    const std::uint8_t* data = args.data + r * (width / 2);
    for (int i = 0; i < width; ++i)
      key[i] = 2 * e2m1_to_f32(static_cast<std::uint8_t>(data[i / 2] >> (i % 2 * 4)));
    for (int b = 0; b < blocks; ++b) key_scale[b] = ue8m0_to_f32(args.scale[r * blocks + b]);
    float score = 0;
    for (int h = 0; h < args.heads; ++h) {
      const float d = fp4_dot(q + h * width, q_scales + h * blocks, key, key_scale, blocks);
      score += args.weights[h] * std::max(d, 0.0f);
    }
    args.scores[r] = score;
  }
}

}  // namespace

std::int64_t index_query_bytes(const RowFormat& format, int heads) {
  const int scales = format.kind == RowKind::kIndexFp4 ? format.width / kBlock : 0;
  return std::int64_t{heads} * (format.width + scales) * 4;
}

void prepare_index_query(const RowFormat& format, const float* q, int heads, std::uint8_t* out) {
  SEEKLINE_CHECK(format.width <= kWidestIndexKey, "an index key wider than a kernel holds");
  const auto width = static_cast<std::size_t>(format.width);
  const BlockQuantizer quantizer = row_layout(format).quantizer;
  float* values = reinterpret_cast<float*>(out);
  float* scales = values + heads * format.width;
  for (int h = 0; h < heads; ++h, q += width, values += width) {
    if (format.kind != RowKind::kIndexFp4) {
      quantize_values(quantizer, {q, width}, {values, width});
      continue;
    }
    for (std::size_t first = 0; first < width; first += kBlock) {
      const QuantizedBlock block = quantize_block(quantizer, {q + first, kBlock});
      for (std::size_t i = 0; i < kBlock; ++i) values[first + i] = 2 * e2m1_to_f32(block.codes[i]);
      *scales++ = block.scale * 0.25f;
    }
  }
}

void index_scores(const IndexScores& args) {
  if (args.format.kind == RowKind::kIndexFp4) return fp4_scores(args);
  const float* q = reinterpret_cast<const float*>(args.q);
  float key[kWidestIndexKey];
  for (std::int64_t r = 0; r < args.rows; ++r) {
    decode_row(args.format, args.data + r * args.format.data_bytes(),
               args.scale + r * args.format.scale_bytes(), key);
    float score = 0;
    for (int h = 0; h < args.heads; ++h)
      score += args.weights[h] * std::max(dot(q + h * args.format.width, key, args.format.width), 0.0f);
    args.scores[r] = score;
  }
}

}  // namespace seekline::portable
