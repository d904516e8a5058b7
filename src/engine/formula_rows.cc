#include "engine/formula_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "formats/rows.h"

namespace seekline {
namespace {

std::uint64_t mix(std::uint64_t z) {
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Eight bytes after eight bytes, never running dry.
class Bytes {
 public:
  explicit Bytes(std::uint64_t key) : state_(key) {}

  void write(std::uint8_t* to, std::int64_t count, std::uint64_t keep, std::uint64_t set) {
    for (std::int64_t i = 0; i < count; i += 8) {
      const std::uint64_t word = (mix(state_ += 0x9e3779b97f4a7c15u) & keep) | set;
      std::memcpy(to + i, &word, static_cast<std::size_t>(std::min<std::int64_t>(8, count - i)));
    }
  }

 private:
  std::uint64_t state_;
};

// Any e2m1 code is ordinary; of e4m3 and floats the sign and the low bits are drawn, the exponent is near 1.
void write_row(const RowFormat& format, std::uint64_t key, const MutableRow& row) {
  const RowLayout layout = row_layout(format);
  Bytes bytes(mix(key));
  if (layout.code_bits == 4) {
    bytes.write(row.data, layout.code_bytes(), ~0ull, 0);
  } else {
    bytes.write(row.data, layout.code_bytes(), 0x8F8F8F8F8F8F8F8Fu, 0x3030303030303030u);
  }
  std::uint8_t* plain = row.data + layout.code_bytes();
  if (layout.plain_bytes == 2) bytes.write(plain, layout.plain * 2, 0x807F807F807F807Fu, 0x3F003F003F003F00u);
  if (layout.plain_bytes == 4) bytes.write(plain, layout.plain * 4, 0x807FFFFF807FFFFFu, 0x3F0000003F000000u);
  if (layout.block_scale_bytes == 4) {
    const float scale = 0.25f;
    for (int block = 0; block < layout.blocks; ++block) std::memcpy(row.scale + 4 * block, &scale, 4);
  } else if (layout.quantizer == BlockQuantizer::kFp4Block16) {
    bytes.write(row.scale, layout.blocks, 0x0707070707070707u, 0x2828282828282828u);  // e4m3: 0.25 .. 0.47
  } else {
    std::memset(row.scale, 0, static_cast<std::size_t>(format.scale_bytes()));
    bytes.write(row.scale, layout.blocks, 0x0101010101010101u, 0x7C7C7C7C7C7C7C7Cu);  // ue8m0: 1/8, 1/4
  }
}

}  // namespace

std::int32_t formula_token(std::int64_t position, std::int64_t vocab) {
  return static_cast<std::int32_t>(mix(static_cast<std::uint64_t>(position) + 1) %
                                   static_cast<std::uint64_t>(vocab));
}

void fill_with_formula(SequenceCache& cache, std::int64_t tokens, std::int64_t vocab, ThreadPool& pool) {
  cache.reserve(tokens);
  for (const Store& store : cache.plan().stores) {
    const std::int64_t rows = store.rows_at(tokens);
    const std::int64_t first = store.growing() ? 0 : tokens - rows;
    pool.split(rows, 64, [&](WorkRange range, int) {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const std::int64_t at = first + i;
        const auto key = (static_cast<std::uint64_t>(store.id + 1) << 40) + static_cast<std::uint64_t>(at);
        write_row(store.row, key,
                  store.growing() ? cache.mutable_row(store.id, at) : cache.mutable_ring_row(store.id, at));
      }
    });
  }
  std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens));
  for (std::int64_t i = 0; i < tokens; ++i) ids[static_cast<std::size_t>(i)] = formula_token(i, vocab);
  cache.advance(0, ids);
}

}  // namespace seekline
